// command.h — the frame of a program with subcommands.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include <CLI/CLI.hpp>

namespace farside {

/// Runs the subcommand once the arguments are read; returns the exit code.
using Action = std::function<int()>;

/// Adds a subcommand to the parser, which leaves its action in `chosen` when it is chosen.
using AddCommand = void (*)(CLI::App& app, Action& chosen);

/// Reads the arguments, takes the action that they choose, and says on standard error what went wrong. Returns the exit
/// code: 0, the action's own, 1 when it failed, 2 when the program was used wrongly; of a command that runs another
/// program 125 in both cases, and 126 or 127 when it could not run it (program_error.h). `choice` is what to name when
/// nothing is chosen: "a command".
[[nodiscard]] int run_command(CLI::App& app, std::initializer_list<AddCommand> commands, const std::string& choice,
                              int argc, char** argv);

}  // namespace farside
