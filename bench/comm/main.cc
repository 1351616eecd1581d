// farside bench comm: copies, notices, barriers and reductions, beside Open MPI.
#include <array>

#include "bench/comm/tables.h"

namespace farside::bench {
namespace {

constexpr std::array<unsigned, 4> kRanks{2, 4, 8, 16};
constexpr unsigned kMaxQuickRanks = 4;  // ranks, in a quick run

void measure_ranks(const Fabric& fabric, unsigned ranks, const Options& options, Report& report) {
  const Jobs jobs("comm", fabric, ranks, {{Who::mpi}}, options, report);
  if (!jobs.started()) return;
  if (ranks == 2) {
    measure_copies(jobs, options, report);
    measure_signals(jobs, report);
    measure_overlap(jobs, report);
  }
  measure_barriers(jobs, report);
  measure_phases(jobs, report);
  measure_reductions(jobs, options, report);
}

void measure(const Options& options, Report& report) {
  for (const Fabric* fabric : {&direct(), &over_tcp()}) {
    for (const unsigned ranks : kRanks) {
      if (!options.quick || ranks <= kMaxQuickRanks) measure_ranks(*fabric, ranks, options, report);
    }
  }
  measure_node(options, report);
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::run_program(argc, argv, "comm", "copies, barriers and reductions beside Open MPI",
                                     farside::bench::measure);
}
