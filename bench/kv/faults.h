// faults.h — sessions of a store with two copies while a node is killed: how long they stand still, how long healing
// takes, and what the second copy costs while nothing fails.
#pragma once

#include "bench/harness/entrant.h"
#include "bench/harness/program.h"

namespace farside::bench {

/// Throws when a value that was acknowledged is lost.
void measure_faults(const Fabric& fabric, const Options& options, Report& report);

}  // namespace farside::bench
