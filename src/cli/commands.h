// commands.h — the subcommands. Each adds itself to the parser and, once chosen, leaves its action in `chosen`.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace farside::cli {

/// What to do once the arguments are read; returns the exit code.
using Action = std::function<int()>;

void add_up(CLI::App& app, Action& chosen);
void add_status(CLI::App& app, Action& chosen);
void add_down(CLI::App& app, Action& chosen);
void add_exec(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_doctor(CLI::App& app, Action& chosen);
void add_node(CLI::App& app, Action& chosen);

}  // namespace farside::cli
