// farside kv recover: which copies of the store's partitions a directory has, and which of them goes on where the other
// one is missing.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "farside/base/error.h"

#include "cli/commands.h"
#include "cli/table.h"
#include "kv/journal/copy_record.h"
#include "kv/journal/directory.h"

namespace farside::cli {

namespace {

struct Recovery {
  std::filesystem::path directory;
  std::optional<kv::ServerNumber> server;
  std::optional<unsigned> copy;
  bool accepts_loss = false;
};

struct FoundCopy {
  std::filesystem::path directory;
  std::optional<kv::CopyRecord> record;  ///< none: it cannot be read
  std::string flaw;                      ///< why not
};

FoundCopy read_copy(const std::filesystem::path& directory) try {
  return {directory, kv::CopyRecord(directory), ""};
} catch (const Error& error) {
  return {directory, std::nullopt, error.failure().why};
}

std::vector<FoundCopy> copies_in(const std::filesystem::path& directory) {
  std::vector<FoundCopy> copies;
  for (const auto& entry : kv::entries_of(directory)) {
    std::error_code absent;
    if (std::filesystem::exists(entry / kv::CopyRecord::kName, absent)) copies.push_back(read_copy(entry));
  }
  std::ranges::sort(copies, {}, &FoundCopy::directory);
  if (copies.empty()) {
    throw UsageError({"find copies in", directory, "it has none",
                      "name the directory that --kv-dir names, of a pool with --kv-copies 2"});
  }
  return copies;
}

void print(const std::vector<FoundCopy>& copies) {
  Table table({Table::Align::right, Table::Align::right, Table::Align::left, Table::Align::left});
  table.add({"server", "copy", "it is", "directory"});
  for (const auto& [directory, record, flaw] : copies) {
    const std::string name = directory.filename();
    if (record) {
      table.add({std::to_string(record->partition().server), std::to_string(record->seat() + 1),
                 to_string(record->claim()), name});
    } else {
      table.add({"?", "?", flaw, name});
    }
  }
  table.print(std::cout);
}

const FoundCopy& chosen_of(const std::vector<FoundCopy>& copies, const Recovery& recovery) {
  std::vector<const FoundCopy*> fitting;
  for (const FoundCopy& each : copies) {
    if (!each.record || each.record->partition().server != *recovery.server) continue;
    const bool is_whole = each.record->claim().standing > kv::CopyStanding::begun;
    if (is_whole && (!recovery.copy || each.record->seat() + 1 == *recovery.copy)) fitting.push_back(&each);
  }
  const std::string tried = "go on with a copy of server " + std::to_string(*recovery.server) + " in";
  if (fitting.empty()) {
    throw UsageError(
        {tried, recovery.directory, "none is here that was ever whole", "run this command on the machine that has it"});
  }
  if (fitting.size() > 1) {
    throw UsageError({tried, recovery.directory, "both are here",
                      "name one with --copy; without --accept-loss this command shows what each is"});
  }
  return *fitting.front();
}

// The record is read again when the directory is held: a server may have changed it before.
int accept_loss(const std::vector<FoundCopy>& copies, const Recovery& recovery) {
  const std::filesystem::path directory = chosen_of(copies, recovery).directory;
  const kv::JournalDirectory held(directory);  // by no server
  std::vector<FoundCopy> again;
  again.push_back(read_copy(directory));
  (void)chosen_of(again, recovery);
  kv::CopyRecord& record = *again.front().record;
  const kv::CopyClaim before = record.claim();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count());
  if (!record.write(kv::preferred(before, seconds), record.folder())) throw errno_error("write", directory);
  std::cout << fmt::format("server {} goes on with copy {}, which was {}; what only its other copy has is given up\n",
                           *recovery.server, record.seat() + 1, to_string(before));
  return 0;
}

int recover(const Recovery& recovery) {
  const std::vector<FoundCopy> copies = copies_in(recovery.directory);
  if (recovery.accepts_loss) return accept_loss(copies, recovery);
  print(copies);
  return 0;
}

}  // namespace

void add_kv_recover(CLI::App& kv, Action& chosen) {
  const auto recovery = std::make_shared<Recovery>();
  CLI::App* command = kv.add_subcommand("recover", "Show which copies a directory has, or go on with one of them");
  command->add_option("directory", recovery->directory, "What --kv-dir names")->required()->type_name("DIR");
  CLI::Option* server = command->add_option("--server", recovery->server, "Whose copy goes on")->type_name("NUMBER");
  CLI::Option* accept = command
                            ->add_flag("--accept-loss", recovery->accepts_loss,
                                       "Go on with the copy that is here, and give up what only the other one has")
                            ->needs(server);
  server->needs(accept);
  command->add_option("--copy", recovery->copy, "1 or 2, where both are here")->check(CLI::Range(1, 2))->needs(accept);
  command->footer(
      "A partition of a pool with --kv-copies 2 and --kv-dir goes on by itself when the copy is there that has all\n"
      "that was acknowledged. When that one is lost for good this command lets the other one go on. Do it while the\n"
      "pool is down, on the machine that has the copy.\n\n"
      "Examples:\n"
      "  farside kv recover /var/lib/farside\n"
      "  farside kv recover /var/lib/farside --server 2 --accept-loss");
  command->callback([recovery, &chosen] { chosen = [recovery] { return recover(*recovery); }; });
}

}  // namespace farside::cli
