// layers.h — figure 3 of Goto et al., remote swap memory: random reads and writes from 4 KiB to 4 MiB, of the pool, of
// a device on it, and of what else holds more than a machine's memory does.
#pragma once

#include "bench/harness/entrant.h"
#include "bench/harness/program.h"

namespace farside::bench {

void measure_layers(const Fabric& fabric, const Options& options, Report& report);

}  // namespace farside::bench
