// The farside command. Exit code 0; 1 when something failed; 2 when it was used wrongly.
#include <exception>
#include <iostream>

#include "farside/base/error.h"

#include "cli/commands.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("farside: the memory of other machines, as if it were your own", "farside");
  app.set_version_flag("--version", std::string("farside ") + FARSIDE_VERSION);
  app.failure_message(CLI::FailureMessage::help);

  farside::cli::Action chosen;
  for (const auto add :
       {farside::cli::add_up, farside::cli::add_status, farside::cli::add_down, farside::cli::add_exec,
        farside::cli::add_run, farside::cli::add_bench, farside::cli::add_doctor, farside::cli::add_node}) {
    add(app, chosen);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!chosen) {
    std::cerr << "farside: name a command\n" << app.help();
    return 2;
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const farside::UsageError& error) {
    std::cerr << "farside: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "farside: " << error.what() << '\n';
    return 1;
  }
}
