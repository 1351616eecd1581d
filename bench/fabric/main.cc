// farside bench fabric: one-sided operations on each fabric, beside raw UCX and Open MPI RMA.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "bench/fabric/work.h"
#include "bench/harness/entrant.h"
#include "bench/harness/program.h"
#include "bench/harness/timing_race.h"
#include "plot/plot.h"

namespace farside::bench {
namespace {

constexpr std::array<std::uint64_t, 8> kSizes{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, kLargestBytes};
constexpr std::array<std::uint64_t, 3> kDepths{1, 16, kDeepest};
constexpr std::uint64_t kBulkBytes = 4096;  // from here on bandwidth says something
constexpr double kSecondsInNanosecond = 1e-9;

/// How much faster than a contender farside wants to be.
struct Baseline : Entrant {
  std::optional<double> wanted_reads = {};
  std::optional<double> wanted_others = {};
};

/// farside on one fabric, and what it is compared with. Ours comes first.
struct Track {
  std::string name;
  Entrant ours;
  std::vector<Baseline> baselines;
  Contender::Program wake;
};

std::vector<std::string> own_program(const std::string& name) { return {sibling_program(name)}; }

/// Two ranks, with Open MPI's own choice of a one-sided component or the one named.
Contender::Program rma_program(const std::string& component = {}) {
  const std::vector<std::string> choice{"--mca", "osc", component};
  return mpi_program(2, "fabric-contender-mpi", component.empty() ? std::vector<std::string>() : choice);
}

std::vector<Track> tracks() {
  const std::map<std::string, std::string> direct{{"FARSIDE_FABRIC", "direct"}};
  const std::map<std::string, std::string> tcp{
      {"FARSIDE_FABRIC", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}};
  const std::map<std::string, std::string> shared_memory{{"UCX_TLS", "shm,self"}};
  return {
      {"direct",
       {"farside", {own_program("fabric-contender-farside"), direct}},
       {{{"raw UCX shared memory", {own_program("fabric-contender-ucx"), shared_memory}}, 1.0, 1.0},
        {{"Open MPI RMA", rma_program()}, 2.0},
        {{"Open MPI RMA, osc sm", rma_program("sm")}},
        {{"memcpy in one process", {own_program("fabric-contender-memcpy")}}}},
       {own_program("fabric-contender-wake"), direct}},
      {"ucx/TCP",
       {"farside", {own_program("fabric-contender-farside"), tcp}},
       {{{"raw UCX over TCP", {own_program("fabric-contender-ucx"), tcp}}, 1 / 1.15, 1 / 1.15}},
       {own_program("fabric-contender-wake"), tcp}},
  };
}

std::vector<Work> works(bool quick) {
  std::vector<Work> works;
  for (const Operation operation : {Operation::read, Operation::write}) {
    for (const std::uint64_t bytes : kSizes) {
      for (const std::uint64_t depth : kDepths) {
        if (!quick || (bytes <= kBulkBytes && depth != kDeepest)) works.push_back({operation, bytes, depth});
      }
    }
  }
  for (const std::uint64_t depth : kDepths) works.push_back({Operation::fetch_add, 8, depth});
  return works;
}

std::string label(const Track& track, const Work& work) {
  return fmt::format("{} {} {} depth {}", track.name, to_string(work.operation), format_bytes(work.bytes), work.depth);
}

TimingRace::Wanted wanted(const Track& track, Operation operation) {
  TimingRace::Wanted wanted;
  for (const Baseline& baseline : track.baselines) {
    wanted.push_back(operation == Operation::read ? baseline.wanted_reads : baseline.wanted_others);
  }
  return wanted;
}

/// Adds what a race over `work` gave to the report; returns its p50.
Result add_results(const Track& track, const Work& work, const TimingRace& race, Report& report) {
  const std::string name = label(track, work);
  Result p50 = race.p50(name, wanted(track, work.operation));
  report.add(p50);
  if (race.has_p99()) report.add(race.p99(name));
  if (work.bytes >= kBulkBytes) report.add(race.bandwidth(name, work.bytes, wanted(track, work.operation)));
  report.note_clock_share(race.clock_share());
  return p50;
}

/// Latency by size at depth 1, one curve a contender.
void draw_latency(const Track& track, Operation operation, const std::vector<std::pair<Work, Result>>& measured,
                  const std::filesystem::path& folder) {
  std::vector<Curve> curves{{track.ours.name + " " + track.name, {}}};
  for (const auto& [work, result] : measured) {
    if (work.operation != operation || work.depth != 1) continue;
    const auto bytes = static_cast<double>(work.bytes);
    curves.front().points.emplace_back(bytes, result.ours.median * kSecondsInNanosecond);
    curves.resize(1 + result.baselines.size());
    for (std::size_t i = 0; i < result.baselines.size(); ++i) {
      curves[i + 1].name = result.baselines[i].baseline;
      curves[i + 1].points.emplace_back(bytes, result.baselines[i].summary.median * kSecondsInNanosecond);
    }
  }
  const std::string fabric = track.name == "direct" ? "direct" : "tcp";
  const std::string file = operation == Operation::read ? "read" : "write";
  draw({fmt::format("{} on {}, one at a time", to_string(operation), track.name),
        {"size", "%.0b %BB"},
        {"latency (p50)", "%.0s %cs"},
        curves},
       folder / fmt::format("fabric-{}-{}.svg", fabric, file));
}

/// Those of ours and the track's baselines that could be started, ours first; none when ours could not. Leaves the
/// others out of the track.
std::vector<std::unique_ptr<Contender>> start_all(Track& track, Report& report) {
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(start(track.name, track.ours, report));
  if (contenders.front() == nullptr) return {};
  std::erase_if(track.baselines, [&](const Baseline& baseline) {
    auto contender = start(baseline.name, baseline, report);
    if (contender == nullptr) return true;
    contenders.push_back(std::move(contender));
    return false;
  });
  return contenders;
}

void measure_operations(Track track, const Options& options, Report& report) {
  const std::vector<std::unique_ptr<Contender>> contenders = start_all(track, report);
  if (contenders.empty()) return;
  std::vector<std::pair<Work, Result>> measured;
  for (const Work& work : works(options.quick)) {
    show_progress(label(track, work));
    const TimingRace race(contenders, question(work, options.budget()), options.repetitions);
    measured.emplace_back(work, add_results(track, work, race, report));
  }
  if (options.plots.empty()) return;
  draw_latency(track, Operation::read, measured, options.plots);
  draw_latency(track, Operation::write, measured, options.plots);
}

void measure_wake(const Track& track, const Options& options, Report& report) {
  const std::string name = track.name + " wake a sleeper";
  show_progress(name);
  const Contender::Program pipe{{sibling_program("fabric-contender-wake"), "pipe"}};
  Track wake{name, {"farside", track.wake}, {{{"a byte through a pipe", pipe}}}, {}};
  const std::vector<std::unique_ptr<Contender>> contenders = start_all(wake, report);
  if (contenders.empty()) return;
  const TimingRace race(contenders, options.quick ? "20" : "200", options.repetitions);
  report.add(race.p50(name));
  report.add(race.p99(name));
}

void measure(const Options& options, Report& report) {
  for (const Track& track : tracks()) {
    measure_operations(track, options, report);
    measure_wake(track, options, report);
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::run_program(argc, argv, "fabric", "one-sided operations beside raw UCX and Open MPI RMA",
                                     farside::bench::measure);
}
