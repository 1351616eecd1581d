#include "command/command.h"

#include <algorithm>
#include <exception>
#include <iostream>

#include "farside/base/error.h"

#include "base/program_error.h"

namespace farside {

namespace {

// By convention, that subcommand's positional is called so.
bool runs_a_program(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return std::ranges::any_of(chosen,
                             [](const CLI::App* one) { return one->get_option_no_throw("command") != nullptr; });
}

/// An option that the parser refuses, in the words of our own errors.
std::string misuse(const CLI::App& app, const CLI::Error& error) {
  const CLI::App* used = &app;
  std::string name = app.get_name();
  for (auto chosen = used->get_subcommands(); !chosen.empty(); chosen = used->get_subcommands()) {
    used = chosen.front();
    name += " " + used->get_name();
  }
  std::string why = error.what();
  if (const std::string prefix = used->get_name() + ": "; why.starts_with(prefix)) why.erase(0, prefix.size());
  const Error said({"understand", "the arguments of " + name, why, "see " + name + " --help"});
  return app.get_name() + ": " + said.what() + '\n';
}

}  // namespace

int run_command(CLI::App& app, std::initializer_list<AddCommand> commands, const std::string& choice, int argc,
                char** argv) {
  const auto complain = [&](const std::exception& error) {
    std::cerr << app.get_name() << ": " << error.what() << '\n';
  };
  try {
    app.failure_message([](const CLI::App* used, const CLI::Error& error) { return misuse(*used, error); });
    Action chosen;
    for (const AddCommand add : commands) add(app, chosen);
    app.parse(argc, argv);
    if (chosen) {
      const int code = chosen();
      if (!std::cout.flush()) throw Error({"write", "standard output", "not all of it was taken", "is there room?"});
      return code;
    }
    std::cerr << app.get_name() << ": name " << choice << '\n' << app.help();
    return 2;
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error) == 0 ? 0 : 2;
    if (code != 0 && runs_a_program(app)) {
      std::cerr << "\nput -- before the program, so that its options are its own\n";
    }
    return code;
  } catch (const UsageError& error) {
    complain(error);
    return 2;
  } catch (const ProgramError& error) {
    complain(error);
    return error.exit_code();
  } catch (const std::exception& error) {
    complain(error);
    return 1;
  }
}

}  // namespace farside
