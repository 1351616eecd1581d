// The farside-sim command. A scenario that was violated counts as failed.
//
// Stands alone, as each program's beginning does.
#include <cstdlib>

#include "farside_sim/commands.h"

int main(int argc, char** argv) {
  using namespace farside::farside_sim;
  ::setenv("FARSIDE_LOG", "error", 0);  // what happens to simulated nodes is no news to the user
  CLI::App app("farside-sim: farside's protocols on a simulated network", "farside-sim");
  return farside::run_command(app, {add_replay, add_soak, add_figures}, "a scenario or a command", argc, argv);
}
