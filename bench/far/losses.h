// losses.h — how long a program in mirrored far memory stands still when a node is killed under its load.
#pragma once

#include "bench/harness/entrant.h"
#include "bench/harness/program.h"

namespace farside::bench {

/// Throws when a byte is wrong afterwards.
void measure_losses(const Fabric& fabric, const Options& options, Report& report);

}  // namespace farside::bench
