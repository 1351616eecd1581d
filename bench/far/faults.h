// faults.h — what one fault on far memory costs, beside the least that it could, and how many pages come in a second.
#pragma once

#include "bench/harness/entrant.h"
#include "bench/harness/program.h"

namespace farside::bench {

void measure_faults(const Fabric& fabric, const Options& options, Report& report);

}  // namespace farside::bench
