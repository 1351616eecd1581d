#include <array>

#include <fmt/format.h>

#include "farside/base/units.h"

#include "bench/comm/tables.h"

namespace farside::bench {
namespace {

constexpr std::array<std::uint64_t, 5> kReducedBytes{8, 512, 4 << 10, 64 << 10, 1 << 20};
constexpr std::uint64_t kMaxQuick = 4 << 10;
constexpr std::uint64_t kPhaseBytes = 4 << 10;
constexpr double kComputing = 0.99;  // barriers under way are to cost less than 1 %
constexpr unsigned kCores = 2;       // of the machine that the wanted figures were stated for

/// More ranks than cores are to be twice as fast as Open MPI's.
double wanted_beside_mpi(const Jobs& jobs) { return jobs.ranks() > kCores ? 2 : 1; }

/// That all ranks move together without taking the whole time of the benchmark.
std::uint64_t largest_bytes(const Jobs& jobs) { return jobs.on_memory() ? 1U << 20U : 64U << 10U; }

}  // namespace

void measure_barriers(const Jobs& jobs, Report& report) {
  report.continue_table(jobs.fabric() + ": barriers (figure 6)");
  const std::vector<Entry> entries{
      {.who = Who::farside, .operation = "barrier"},
      {.who = Who::mpi, .operation = "barrier", .wanted = wanted_beside_mpi(jobs)},
      {.who = Who::farside, .operation = "barrier-of-messages", .name = "signals of farside"},
      {.who = Who::mpi, .operation = "barrier-of-messages", .name = "messages of Open MPI"},
  };
  report.add(jobs.race(entries).p50(jobs.title("barrier")));
  report.continue_table(jobs.fabric() + ": split-phase barriers");
  report.add(jobs.race("begin+wait", 0, wanted_beside_mpi(jobs)).p50(jobs.title("begin+wait")));
}

void measure_overlap(const Jobs& jobs, Report& report) {
  report.continue_table(jobs.fabric() + ": computation with barriers under way");
  const std::vector<Entry> entries{
      {.who = Who::farside, .operation = "compute+barriers"},
      {.who = Who::farside, .operation = "compute", .name = "no barrier", .wanted = kComputing},
      {.who = Who::mpi, .operation = "compute+barriers"},
  };
  report.add(jobs.race(entries).p50(jobs.title("computation and barriers")));
}

void measure_phases(const Jobs& jobs, Report& report) {
  report.continue_table(fmt::format("{}: a phase in which each rank puts {} to the next, ended by counting",
                                    jobs.fabric(), format_bytes(kPhaseBytes)));
  const std::vector<Entry> entries{
      {.who = Who::farside, .operation = "phase-by-count", .amount = kPhaseBytes},
      {.who = Who::farside, .operation = "phase-by-barrier", .amount = kPhaseBytes, .name = "by barrier"},
      {.who = Who::mpi, .operation = "phase-by-barrier", .amount = kPhaseBytes, .name = "Open MPI, by barrier"},
  };
  report.add(jobs.race(entries).p50(jobs.title("phase")));
}

void measure_reductions(const Jobs& jobs, const Options& options, Report& report) {
  report.continue_table(jobs.fabric() + ": all_reduce, sums of doubles");
  for (const std::uint64_t bytes : kReducedBytes) {
    if (bytes > (options.quick ? kMaxQuick : largest_bytes(jobs))) continue;
    const TimingRace race = jobs.race("all_reduce", bytes, wanted_beside_mpi(jobs));
    report.add(race.p50(jobs.title("all_reduce " + format_bytes(bytes))));
  }
}

}  // namespace farside::bench
