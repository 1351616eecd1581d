// programs.h — figures 4 to 7 and tables 3 and 4 of Goto et al., remote swap memory: computations in less memory than
// they use, with the rest in a pool, or on a disk by the kernel's swap.
#pragma once

#include "bench/harness/program.h"

namespace farside::bench {

/// Kernels with less and less memory, beside their time in memory.
void measure_programs(const Options& options, Report& report);
/// Table 4: Himeno in all ways that there are.
void measure_himeno(const Options& options, Report& report);
/// What comes and goes over time; and why it becomes more for Himeno with less memory.
void measure_traffic(const Options& options, Report& report);

}  // namespace farside::bench
