// The farside command. Stands alone, as each program's beginning does.
#include <string>

#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace farside::cli;
  CLI::App app("farside: the memory of other machines, as if it were your own", "farside");
  app.set_version_flag("--version", std::string("farside ") + FARSIDE_VERSION);
  app.require_subcommand(0, 1);  // after the first, a word like one belongs to it: farside bench kv
  return farside::run_command(app,
                              {add_up, add_status, add_down, add_exec, add_far, add_run, add_kv, add_bench,
                               add_authority, add_doctor, add_node},
                              "a command", argc, argv);
}
