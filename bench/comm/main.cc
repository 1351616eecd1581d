// farside bench comm: copies, notices and barriers, beside Open MPI.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "farside/base/units.h"

#include "bench/comm/work.h"
#include "bench/harness/entrant.h"
#include "bench/harness/program.h"
#include "bench/harness/timing_race.h"

namespace farside::bench {
namespace {

constexpr std::array<std::uint64_t, 6> kSizes{8, 64, 512, 4 << 10, 64 << 10, 1 << 20};
constexpr std::array<unsigned, 4> kRanks{2, 4, 8, 16};
constexpr std::uint64_t kBulkBytes = 4096;  // from here on bandwidth says something
constexpr unsigned kCores = 2;              // of the machine that the wanted figures were stated for

struct Fabric {
  std::string name;
  std::map<std::string, std::string> environment;
};

const std::array<Fabric, 2> kFabrics{
    Fabric{"direct", {{"FARSIDE_FABRIC", "direct"}}},
    Fabric{"ucx/TCP", {{"FARSIDE_FABRIC", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}}}};

/// A job of farside and, on memory, one of Open MPI; none when ours could not be started.
std::vector<std::unique_ptr<Contender>> start_jobs(const Fabric& fabric, unsigned ranks, Report& report) {
  const std::string command = sibling_program("../../bin/farside");
  const Entrant ours{"farside",
                     {{command, "run", "-n", std::to_string(ranks), "--", sibling_program("comm-contender-farside")},
                      fabric.environment}};
  const std::string what = fmt::format("{}, {} ranks", fabric.name, ranks);
  std::vector<std::unique_ptr<Contender>> jobs;
  jobs.push_back(start(what, ours, report));
  if (jobs.front() == nullptr) return {};
  if (fabric.name != "direct") return jobs;
  if (auto mpi = start(what, {"Open MPI", mpi_program(ranks, "comm-contender-mpi")}, report)) {
    jobs.push_back(std::move(mpi));
  }
  return jobs;
}

void measure_copies(const Fabric& fabric, const Options& options, Report& report) {
  const auto jobs = start_jobs(fabric, 2, report);
  if (jobs.empty()) return;
  for (const Operation operation : {Operation::put, Operation::put_signal, Operation::put_count, Operation::issue}) {
    for (const std::uint64_t bytes : kSizes) {
      if (options.quick && bytes > kBulkBytes) continue;
      const std::string name = fmt::format("{} {} {}", fabric.name, to_string(operation), format_bytes(bytes));
      show_progress(name);
      const TimingRace race(jobs, question(operation, bytes, options.budget()), options.repetitions);
      report.add(race.p50(name));
      if (bytes >= kBulkBytes && operation == Operation::put) report.add(race.bandwidth(name, bytes));
    }
  }
}

void measure_barriers(const Fabric& fabric, const Options& options, Report& report) {
  for (const unsigned ranks : kRanks) {
    if (options.quick && ranks > 4) continue;
    const auto jobs = start_jobs(fabric, ranks, report);
    if (jobs.empty()) continue;
    for (const Operation operation : {Operation::barrier, Operation::fuzzy_barrier}) {
      const std::string name = fmt::format("{} {} of {} ranks", fabric.name, to_string(operation), ranks);
      show_progress(name);
      const TimingRace race(jobs, question(operation, 0, options.budget()), options.repetitions);
      report.add(race.p50(name, {ranks > kCores ? 2.0 : 1.0}));
    }
  }
}

void measure(const Options& options, Report& report) {
  for (const Fabric& fabric : kFabrics) {
    measure_copies(fabric, options, report);
    measure_barriers(fabric, options, report);
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::run_program(argc, argv, "comm", "copies, notices and barriers beside Open MPI",
                                     farside::bench::measure);
}
