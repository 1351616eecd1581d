#include "command/command.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <string_view>

#include "farside/base/error.h"

#include "base/program_error.h"

namespace farside {

namespace {

constexpr int kRefused = 125;

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
  // As env and timeout: 1 and 2 are codes of the program that was to run, so this one's own is another.
  const auto code_of = [&app](int own) { return runs_a_program(app) ? kRefused : own; };
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
    if (app.exit(error) == 0) return 0;
    const bool has_dashes = std::any_of(argv, argv + argc, [](std::string_view argument) { return argument == "--"; });
    if (runs_a_program(app) && !has_dashes) {
      std::cerr << "put -- before the program, so that its options are its own\n";
    }
    return code_of(2);
  } catch (const UsageError& error) {
    complain(error);
    return code_of(2);
  } catch (const ProgramError& error) {
    complain(error);
    return error.exit_code();
  } catch (const std::exception& error) {
    complain(error);
    return code_of(1);
  }
}

}  // namespace farside
