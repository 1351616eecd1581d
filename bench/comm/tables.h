// tables.h — the tables of `bench comm`, each in a file of its own.
#pragma once

#include "bench/harness/jobs.h"

namespace farside::bench {

// Of two ranks.

/// Copies, with and without a notice: latency, bandwidth and N1/2 (the paper's figure 5). Atomics.
void measure_copies(const Jobs& jobs, const Options& options, Report& report);
/// One way, overhead and gap, as in LogP, of signals and of active messages.
void measure_signals(const Jobs& jobs, Report& report);
/// What barriers under way cost a rank that computes.
void measure_overlap(const Jobs& jobs, Report& report);

// Of any number of ranks: a row each.

/// Barriers, whole and split, beside barriers made of messages (figure 6).
void measure_barriers(const Jobs& jobs, Report& report);
/// The end of a phase, by counting and by a barrier.
void measure_phases(const Jobs& jobs, Report& report);
void measure_reductions(const Jobs& jobs, const Options& options, Report& report);

/// Memory bandwidth by threads (table 1), and barriers within a node (table 2).
void measure_node(const Options& options, Report& report);

}  // namespace farside::bench
