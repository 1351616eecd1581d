// farside far: a program whose large allocations live in far memory.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include "farside/base/error.h"
#include "farside/base/memory.h"
#include "farside/base/units.h"
#include "farside/far/pool.h"

#include "base/signals_held.h"
#include "cli/commands.h"
#include "cli/far_watch.h"
#include "cli/metrics_page.h"
#include "cli/metrics_server.h"
#include "cli/preloaded.h"
#include "cli/table.h"
#include "far/daemon/daemon.h"
#include "far/daemon/messages.h"
#include "net/runtime_dir.h"
#include "team/launcher.h"

namespace farside::cli {

namespace {

constexpr std::uint64_t kThresholdBytes = std::uint64_t{1} << 20U;
// The arena is address space, not memory. Allocators reserve more than they use, and a range is in one piece.
constexpr std::uint64_t kArenaFactor = 4;
constexpr std::uint64_t kLeastArenaBytes = std::uint64_t{16} << 30U;

struct FarArguments {
  std::string local;
  std::string far;
  bool mirror = false;
  bool trust_nodes = false;
  std::string spill;
  bool statistics = false;
  std::string metrics;
  std::filesystem::path profile;
  std::filesystem::path hints;
  std::vector<std::string> command;

  [[nodiscard]] std::uint64_t local_bytes() const {
    const std::uint64_t bytes = parse_bytes(local, "--local");
    const std::uint64_t available = available_memory_bytes();
    if (bytes == 0)
      throw UsageError({"keep in this machine's memory", "nothing", "a program needs some", "give --local 64M, say"});
    if (bytes > available) {
      throw UsageError({"keep in this machine's memory", format_bytes(bytes),
                        "only " + format_bytes(available) + " are to be had", "give --local less"});
    }
    return bytes;
  }

  [[nodiscard]] bool names_allocations() const { return !profile.empty() || !hints.empty(); }

  [[nodiscard]] far::PoolOptions pool() const {
    far::PoolOptions options;
    if (mirror) options.protection = far::Protection::mirror;
    if (trust_nodes) options.protection = far::Protection::trust_nodes;
    if (!spill.empty()) {
      options.protection = far::Protection::spill;
      options.spill = spill;
    }
    options.all_that_is_left = far.empty();
    if (far.empty()) return options;
    options.bytes = parse_bytes(far, "--far");
    if (options.bytes == 0) {
      throw Error({"take", "far memory", "--far is zero", "give --far more, or leave it out for all that is left"});
    }
    return options;
  }
};

// Throws Error when something is wrong with the profile's files, before any program runs.
std::unique_ptr<far::Profile> open_profile(const FarArguments& arguments) {
  if (!arguments.names_allocations()) return nullptr;
  auto profile = std::make_unique<far::Profile>(arguments.local_bytes());
  if (!arguments.hints.empty()) profile->read_hints(arguments.hints);
  if (!arguments.profile.empty()) far::expect_writable(arguments.profile);
  return profile;
}

// Creates the threads of the pool and of the daemon, with signals held: signals are for the thread that waits for the
// program.
std::unique_ptr<far::Daemon> open_daemon(const FarArguments& arguments, const std::string& socket,
                                         far::Profile* profile) {
  const std::uint64_t local_bytes = arguments.local_bytes();
  const SignalsHeld held;
  auto space = far::open_pool(arguments.pool());
  const std::uint64_t arena_bytes = std::max(kArenaFactor * space->bytes(), kLeastArenaBytes);
  return std::make_unique<far::Daemon>(std::move(space), far::DaemonOptions{.socket = socket,
                                                                            .local_bytes = local_bytes,
                                                                            .arena_bytes = arena_bytes,
                                                                            .threshold_bytes = kThresholdBytes,
                                                                            .profile = profile});
}

// The program's standard output is its own.
std::unique_ptr<MetricsServer> serve_metrics(const std::string& address) {
  if (address.empty()) return nullptr;
  const SignalsHeld held;
  auto server = std::make_unique<MetricsServer>(address, metrics_of_this_process);
  std::cerr << "metrics at http://" << server->address() << "/metrics\n";
  return server;
}

void print(const far::DaemonCounts& counts) {
  const far::PagerCounts& pages = counts.pages;
  const auto bytes = [](std::uint64_t count) { return format_bytes(count * 4096); };
  std::cerr << fmt::format(
      "programs                 {}\n"
      "faults                   {} ({} first touches)\n"
      "write-protection faults  {}\n"
      "prefetched               {} pages (about {} used)\n"
      "in                       {}\n"
      "out                      {}\n"
      "in faults                {:.3f} s\n"
      "a fault                  half within {}, 99 % within {}\n",
      counts.programs, pages.faults, pages.first_touches, pages.protection_faults, pages.ahead_pages, pages.ahead_hits,
      bytes(pages.fetched_pages), bytes(pages.stored_pages), static_cast<double>(pages.nanoseconds_in_faults) / 1e9,
      latency_text(counts.fault_latencies.quantile_ns(0.5)), latency_text(counts.fault_latencies.quantile_ns(0.99)));
}

void print(const far::Profile::HintsGiven& hints) {
  std::cerr << fmt::format("hints          for {} allocations; of {} names nothing had {}\n", hints.allocations,
                           hints.names, hints.unknown);
}

std::string libraries(const FarArguments& arguments) {
  std::string list = library_beside_command("libfarside-far.so") + ":libjemalloc.so.2";
  if (arguments.names_allocations()) list.insert(0, library_beside_command("libfarside-far-allocations.so") + ":");
  return preload_before_others(std::move(list));
}

// Returns those that this process inherited, as long as it has opened none itself, in order.
std::vector<int> open_descriptors() {
  std::vector<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    open.push_back(std::stoi(entry.path().filename()));
  }
  std::erase_if(open, [](int descriptor) { return ::fcntl(descriptor, F_GETFD) < 0; });  // the directory itself
  std::ranges::sort(open);
  return open;
}

int run_far(const FarArguments& arguments) {
  const std::vector<int> inherited = open_descriptors();
  expect_metrics_stay_here(arguments.metrics, "listen on 127.0.0.1");
  const auto profile = open_profile(arguments);
  const net::JobDir dir;
  const std::string socket = dir.path() / "daemon";
  const auto daemon = open_daemon(arguments, socket, profile.get());
  const auto metrics = serve_metrics(arguments.metrics);
  team::Launcher launcher(
      {.command = arguments.command,
       .environment = {"LD_PRELOAD=" + libraries(arguments), std::string(far::kDaemonVariable) + "=" + socket},
       .descriptors = inherited});  // UCX's connections lead into the memory of other machines
  team::JobEnd end;
  {
    const FarWatch watch(*daemon, arguments.local_bytes());
    end = launcher.wait();
    watch.expect_programs();
  }
  if (arguments.statistics) print(daemon->counts());
  if (arguments.statistics && !arguments.hints.empty()) print(profile->hints_given());
  if (!arguments.profile.empty()) profile->write(arguments.profile);
  return end.code;
}

}  // namespace

void add_far(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<FarArguments>();
  CLI::App* command = app.add_subcommand("far", "Run a program with more memory than its machine has");
  command->add_option("--local", arguments->local, "Memory of this machine that its large allocations may take at once")
      ->required()
      ->type_name("SIZE");
  command->add_option("--far", arguments->far, "Memory of the pool for the rest [all that is left]")->type_name("SIZE");
  CLI::Option* mirror = command->add_flag("--mirror", arguments->mirror, "Keep everything on two nodes");
  CLI::Option* trust =
      command->add_flag("--trust-nodes", arguments->trust_nodes, "Keep everything on one; what a lost node had is lost")
          ->excludes(mirror);
  command->add_option("--spill", arguments->spill, "Keep everything on one, and in this new file, as large as --far")
      ->type_name("FILE")
      ->excludes(mirror)
      ->excludes(trust);
  command->add_flag("--stats", arguments->statistics, "Print paging statistics on standard error at exit");
  command->add_option("--metrics", arguments->metrics, "Where Prometheus collects metrics while it runs [nowhere]")
      ->type_name("HOST:PORT");
  command
      ->add_option("--profile", arguments->profile, "Write down how each large allocation was used, and a hint for it")
      ->type_name("FILE");
  command->add_option("--hints", arguments->hints, "Give allocations the hints of this file, which --profile wrote")
      ->type_name("FILE");
  command->add_option("command", arguments->command, "The program and its arguments, after --")
      ->required()
      ->type_name("PROGRAM [ARGUMENT...]");
  command->footer(
      "The program is not changed. What it and those that it starts allocate, and its large static arrays, lie in the\n"
      "memory of a pool (farside up --far SIZE); what was used last is here. docs/far_programs.md says what is not "
      "far.\n"
      "Exits with the program's code (128 + n when signal n killed it; 127 when there is no such program, 126 when it\n"
      "cannot be executed; 125 when farside refuses), and ends what the program left running.\n\n"
      "Example:\n  farside far --local 2G --stats -- sort -S 8G numbers");
  command->callback([arguments, &chosen] { chosen = [arguments] { return run_far(*arguments); }; });
}

}  // namespace farside::cli
