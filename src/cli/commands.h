// commands.h — the subcommands; most have a file each.
//
// Stands alone: it is the list of all commands.
#pragma once

#include "command/command.h"

namespace farside::cli {

void add_up(CLI::App& app, Action& chosen);
void add_status(CLI::App& app, Action& chosen);
void add_down(CLI::App& app, Action& chosen);
void add_exec(CLI::App& app, Action& chosen);
void add_far(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_kv(CLI::App& app, Action& chosen);
void add_authority(CLI::App& app, Action& chosen);
void add_doctor(CLI::App& app, Action& chosen);
void add_node(CLI::App& app, Action& chosen);

// Those of farside kv.
void add_kv_store(CLI::App& kv, Action& chosen);
void add_kv_shell(CLI::App& kv, Action& chosen);
void add_kv_recover(CLI::App& kv, Action& chosen);
void add_kv_serve(CLI::App& kv, Action& chosen);
void add_kv_bench(CLI::App& kv, Action& chosen);

}  // namespace farside::cli
