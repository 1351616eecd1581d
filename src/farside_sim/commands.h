// commands.h — what farside-sim can do, one file each.
//
// Stands alone: it is the list of all commands.
#pragma once

#include "command/command.h"

namespace farside::farside_sim {

/// No subcommand: `farside-sim --seed S SCENARIO`.
void add_replay(CLI::App& app, Action& chosen);
void add_soak(CLI::App& app, Action& chosen);

/// `farside-sim figures PAPER`.
void add_figures(CLI::App& app, Action& chosen);

}  // namespace farside::farside_sim
