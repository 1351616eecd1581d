#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "kv/history/read_atomic.h"

namespace farside::cli {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string summary_of(const kv::History& history) {
  std::size_t sessions = 1;
  std::size_t operations = 0;
  for (std::size_t each = 1; each < history.transactions.size(); ++each) {
    operations += history.transactions[each].operations.size();
    if (each > 1 && history.transactions[each].session != history.transactions[each - 1].session) ++sessions;
  }
  return fmt::format("{} transactions in {} sessions, {} operations", history.transactions.size() - 1, sessions,
                     operations);
}

int check(const std::vector<std::string>& files) {
  const Clock::time_point start = Clock::now();
  const kv::History history = kv::read_history(files);
  const double read_s = seconds_since(start);
  const std::optional<kv::HistoryAnomaly> anomaly = kv::check_read_atomic(history);
  const double check_s = seconds_since(start) - read_s;
  std::cout << fmt::format("{}; read in {:.2f} s, checked in {:.2f} s\n", summary_of(history), read_s, check_s);
  if (!anomaly) {
    std::cout << "Read Atomic, and no session's reads go back\n";
    return 0;
  }
  const bool read_atomic = anomaly->kind == kv::HistoryAnomaly::Kind::non_monotonic_read;
  std::cout << (read_atomic ? "Read Atomic, but a session's reads go back: " : "not Read Atomic: ")
            << kv::name_of(anomaly->kind) << '\n';
  for (const std::string& sentence : anomaly->evidence) std::cout << "  " << sentence << '\n';
  return 1;
}

void add_check(CLI::App& kv, Action& chosen) {
  const auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* command = kv.add_subcommand("check", "Decide whether a recorded history is Read Atomic");
  command->add_option("files", *files, "What was recorded, in Plume's text format; together one history")
      ->required()
      ->type_name("FILE...");
  command->footer(
      "Exits with 0 when it is and no session's reads go back, with 1 when it shows an anomaly.\n\n"
      "Example:\n  farside kv check client-*.txt");
  command->callback([files, &chosen] { chosen = [files] { return check(*files); }; });
}

}  // namespace

void add_kv(CLI::App& app, Action& chosen) {
  CLI::App* kv = app.add_subcommand("kv", "Read and write the pool's keys and values; check what clients recorded");
  kv->require_subcommand(1);
  kv->footer("The pool must have been started with farside up --kv SIZE.\n\nExample:\n  farside kv put greeting hello");
  add_kv_store(*kv, chosen);
  add_kv_shell(*kv, chosen);
  add_kv_serve(*kv, chosen);
  add_kv_recover(*kv, chosen);
  add_kv_bench(*kv, chosen);
  add_check(*kv, chosen);
}

}  // namespace farside::cli
