// The farside-sim command. A scenario that was violated counts as failed.
#include "farside_sim/commands.h"

int main(int argc, char** argv) {
  using namespace farside::sim;
  CLI::App app("farside-sim: farside's protocols on a simulated network", "farside-sim");
  return farside::run_command(app, {add_replay, add_soak, add_figures}, "a scenario or a command", argc, argv);
}
