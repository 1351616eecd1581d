// commands.h — what farside-sim can do, one file each. Each adds itself to the parser and, once chosen, leaves its
// action in `chosen`.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

namespace farside::sim {

/// What to do once the arguments are read; returns the exit code.
using Action = std::function<int()>;

/// No subcommand: `farside-sim --seed S SCENARIO`.
void add_replay(CLI::App& app, Action& chosen);
void add_soak(CLI::App& app, Action& chosen);

/// `farside-sim figures PAPER`.
void add_figures(CLI::App& app, Action& chosen);

}  // namespace farside::sim
