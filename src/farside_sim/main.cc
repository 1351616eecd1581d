// The farside-sim command. Exit code 0; 1 when something failed or a scenario was violated; 2 when it was used wrongly.
#include <exception>
#include <iostream>

#include "farside/base/error.h"

#include "farside_sim/commands.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("farside-sim: farside's protocols on a simulated network", "farside-sim");
  app.failure_message(CLI::FailureMessage::help);

  farside::sim::Action chosen;
  for (const auto add : {farside::sim::add_replay, farside::sim::add_soak, farside::sim::add_figures}) add(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!chosen) {
    std::cerr << "farside-sim: name a scenario or a command\n" << app.help();
    return 2;
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const farside::UsageError& error) {
    std::cerr << "farside-sim: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "farside-sim: " << error.what() << '\n';
    return 1;
  }
}
