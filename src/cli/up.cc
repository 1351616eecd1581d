#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <unistd.h>

#include "farside/base/units.h"

#include "cli/cache_arguments.h"
#include "cli/commands.h"
#include "node/pool.h"
#include "team/runtime_dir.h"

namespace farside::cli {

namespace {

struct Arguments {
  Rank nodes = 1;
  CacheArguments cache;
  bool foreground = false;
};

// Overwrites one line of the terminal; nothing when standard error is something else.
void show_progress(Rank ready, Rank nodes) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::cerr << "\rstarting: " << ready << " of " << nodes << " nodes are ready" << (ready == nodes ? "\n" : "")
            << std::flush;
}

int up(const Arguments& arguments) {
  const PoolOptions options{.nodes = arguments.nodes, .cache = arguments.cache.read(arguments.nodes)};
  const PoolDirectory directory(std::filesystem::absolute(runtime_dir()));
  Fd lock = prepare_pool(directory, options);
  if (arguments.foreground) {
    run_pool(directory, options);
    return 0;
  }
  start_pool(directory, options, std::move(lock), [&](Rank ready) { show_progress(ready, options.nodes); });
  std::cout << "a pool of " << options.nodes << (options.nodes == 1 ? " node" : " nodes") << " is up, with "
            << format_bytes(options.cache.cache_bytes) << " of cache each\n";
  return 0;
}

}  // namespace

void add_up(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("up", "Start a pool on this machine");
  command->add_option("-n", arguments->nodes, "How many nodes")
      ->type_name("NODES")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  arguments->cache.add_to(*command);
  command->add_flag("--foreground", arguments->foreground, "Stay, and end the pool with Ctrl-C");
  command->footer(
      "The nodes keep what programs read under farside exec, each in its own share of the machine's memory.\n\n"
      "Example:\n  farside up -n 4 --cache 2G");
  command->callback([arguments, &chosen] { chosen = [arguments] { return up(*arguments); }; });
}

}  // namespace farside::cli
