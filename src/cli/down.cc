// `farside down`. Stands alone, as each command does.
#include <filesystem>
#include <iostream>

#include "cli/commands.h"
#include "net/runtime_dir.h"
#include "node/pool/pool.h"

namespace farside::cli {

namespace {

int down() {
  switch (node::end_pool(node::PoolDirectory(net::runtime_dir()))) {
    case node::PoolEnd::ended: std::cout << "the pool has ended\n"; break;
    case node::PoolEnd::killed: std::cout << "the pool did not end by itself and was killed\n"; break;
    case node::PoolEnd::leftover: std::cout << "the pool had died before; removed what it had left\n"; break;
  }
  return 0;
}

}  // namespace

void add_down(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("down", "End the pool of this machine");
  command->footer(
      "Programs that read through it go on, and read from the file system.\n\n"
      "Example:\n  farside down");
  command->callback([&chosen] { chosen = down; });
}

}  // namespace farside::cli
