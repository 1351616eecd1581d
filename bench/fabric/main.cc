// farside bench fabric: one-sided operations on each fabric, beside raw UCX and Open MPI RMA.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "bench/fabric/work.h"
#include "bench/harness/contender.h"
#include "bench/harness/plot.h"
#include "bench/harness/program.h"
#include "bench/harness/race.h"

namespace farside::bench {
namespace {

constexpr std::array<std::uint64_t, 8> kSizes{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, kLargestBytes};
constexpr std::array<std::uint64_t, 3> kDepths{1, 16, kDeepest};
constexpr double kEnoughForP99 = 100;       // batches
constexpr std::uint64_t kBulkBytes = 4096;  // from here on bandwidth says something

/// A contender, and how much faster than it farside wants to be.
struct Entrant {
  std::string name;
  Contender::Program program;
  std::optional<double> wanted_reads = {};
  std::optional<double> wanted_others = {};
};

/// farside on one fabric, and what it is compared with. Ours comes first.
struct Track {
  std::string name;
  Entrant ours;
  std::vector<Entrant> baselines;
  Contender::Program wake;
};

std::vector<std::string> own_program(const std::string& name) { return {sibling_program(name)}; }

/// Two ranks, with Open MPI's own choice of a one-sided component or the one named.
Contender::Program mpi_program(const std::string& component = {}) {
  std::vector<std::string> command{"mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"};
  if (!component.empty()) command.insert(command.end(), {"--mca", "osc", component});
  command.push_back(sibling_program("fabric-contender-mpi"));
  return {command};
}

std::vector<Track> tracks() {
  const std::map<std::string, std::string> direct{{"FARSIDE_FABRIC", "direct"}};
  const std::map<std::string, std::string> tcp{
      {"FARSIDE_FABRIC", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}};
  const std::map<std::string, std::string> shared_memory{{"UCX_TLS", "shm,self"}};
  return {
      {"direct",
       {"farside", {own_program("fabric-contender-farside"), direct}},
       {{"raw UCX shared memory", {own_program("fabric-contender-ucx"), shared_memory}, 1.0, 1.0},
        {"Open MPI RMA", mpi_program(), 2.0},
        {"Open MPI RMA, osc sm", mpi_program("sm")}},
       {own_program("fabric-contender-wake"), direct}},
      {"ucx/TCP",
       {"farside", {own_program("fabric-contender-farside"), tcp}},
       {{"raw UCX over TCP", {own_program("fabric-contender-ucx"), tcp}, 1 / 1.15, 1 / 1.15}},
       {own_program("fabric-contender-wake"), tcp}},
  };
}

/// Starts a contender; when it cannot be, the report says why.
std::unique_ptr<Contender> start(const std::string& what, const Entrant& entrant, Report& report) {
  const std::string& program = entrant.program.command.front();
  if (program == "mpirun" && !installed(program)) {
    report.not_measured(what, "mpirun is missing (install openmpi-bin)");
    return nullptr;
  }
  if (const std::string& last = entrant.program.command.back(); !std::filesystem::exists(last)) {
    report.not_measured(what, last + " was not built");
    return nullptr;
  }
  try {
    return std::make_unique<Contender>(entrant.name, entrant.program);
  } catch (const Error& error) {
    report.not_measured(what, error.what());
    return nullptr;
  }
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

/// One figure of every contender's timings, ours first.
class Figures {
 public:
  Figures(std::vector<std::vector<Timing>> timings, std::vector<Series> columns)
      : timings_(std::move(timings)), columns_(std::move(columns)) {}

  [[nodiscard]] Result result(std::string name, std::string unit, Better better, auto&& figure) const {
    std::vector<Series> columns = columns_;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      for (const Timing& timing : timings_[i]) columns[i].repetitions.push_back(figure(timing));
    }
    const Series ours = columns.front();
    columns.erase(columns.begin());
    return compare(std::move(name), std::move(unit), better, ours, columns);
  }
  [[nodiscard]] bool all(auto&& holds) const {
    return std::ranges::all_of(timings_, [&](const auto& own) { return std::ranges::all_of(own, holds); });
  }
  void note_clock_share(Report& report) const {
    for (const auto& own : timings_) {
      for (const Timing& timing : own) report.note_clock_share(timing.clock_share);
    }
  }

 private:
  std::vector<std::vector<Timing>> timings_;
  std::vector<Series> columns_;
};

std::vector<std::vector<Timing>> race_timings(const std::vector<std::unique_ptr<Contender>>& contenders,
                                              const std::string& question, unsigned repetitions) {
  std::vector<std::function<Timing()>> turns;
  for (const auto& contender : contenders) {
    turns.push_back([&] { return Timing::from_line(contender->ask(question)); });
  }
  return race<Timing>(repetitions, turns);
}

std::string label(const Track& track, const Work& work) {
  return fmt::format("{} {} {} depth {}", track.name, to_string(work.operation), format_bytes(work.bytes), work.depth);
}

void add_results(const Track& track, const Work& work, const Figures& figures, Report& report) {
  const std::string name = label(track, work);
  report.add(figures.result(name + " p50", "ns", Better::lower, [](const Timing& timing) { return timing.p50_ns; }));
  if (figures.all([](const Timing& timing) { return timing.batches >= kEnoughForP99; })) {
    report.add(figures.result(name + " p99", "ns", Better::lower, [](const Timing& timing) { return timing.p99_ns; }));
  }
  if (work.bytes >= kBulkBytes) {
    const auto bandwidth = [&work](const Timing& timing) { return static_cast<double>(work.bytes) / timing.p50_ns; };
    report.add(figures.result(name + " bandwidth", "GB/s", Better::higher, bandwidth));
  }
  figures.note_clock_share(report);
}

/// Latency by size at depth 1, one curve a contender.
void draw_latency(const Track& track, Operation operation, const std::vector<std::pair<Work, Result>>& measured,
                  const std::filesystem::path& folder) {
  std::vector<Curve> curves{{track.ours.name + " " + track.name, {}}};
  for (const auto& [work, result] : measured) {
    if (work.operation != operation || work.depth != 1) continue;
    const auto bytes = static_cast<double>(work.bytes);
    curves.front().points.emplace_back(bytes, result.ours.median);
    curves.resize(1 + result.baselines.size());
    for (std::size_t i = 0; i < result.baselines.size(); ++i) {
      curves[i + 1].name = result.baselines[i].baseline;
      curves[i + 1].points.emplace_back(bytes, result.baselines[i].summary.median);
    }
  }
  const std::string fabric = track.name == "direct" ? "direct" : "tcp";
  const std::string file = operation == Operation::read ? "read" : "write";
  draw({fmt::format("{} at depth 1", to_string(operation)), "bytes", "latency (ns, p50)", curves},
       folder / fmt::format("fabric-{}-{}.svg", fabric, file));
}

void measure_operations(const Track& track, const Options& options, Report& report) {
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(start(track.name, track.ours, report));
  if (contenders.front() == nullptr) return;
  std::vector<Entrant> entrants{track.ours};
  for (const Entrant& baseline : track.baselines) {
    auto contender = start(baseline.name, baseline, report);
    if (contender == nullptr) continue;
    contenders.push_back(std::move(contender));
    entrants.push_back(baseline);
  }
  std::vector<std::pair<Work, Result>> measured;
  for (const Work& work : works(options.quick)) {
    show_progress(label(track, work));
    std::vector<Series> columns;
    for (const Entrant& entrant : entrants) {
      columns.push_back(
          {entrant.name, {}, work.operation == Operation::read ? entrant.wanted_reads : entrant.wanted_others});
    }
    const Figures figures(race_timings(contenders, question(work, options.budget()), options.repetitions), columns);
    add_results(track, work, figures, report);
    measured.emplace_back(work,
                          figures.result("", "ns", Better::lower, [](const Timing& timing) { return timing.p50_ns; }));
  }
  if (options.plots.empty()) return;
  draw_latency(track, Operation::read, measured, options.plots);
  draw_latency(track, Operation::write, measured, options.plots);
}

void measure_wake(const Track& track, const Options& options, Report& report) {
  const std::string name = track.name + " wake a sleeper";
  show_progress(name);
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(start(name, {"farside", track.wake}, report));
  if (contenders.front() == nullptr) return;
  const std::string pipe = "a byte through a pipe";
  contenders.push_back(
      std::make_unique<Contender>(pipe, Contender::Program{{sibling_program("fabric-contender-wake"), "pipe"}, {}}));
  const std::string times = options.quick ? "20" : "200";
  const Figures figures(race_timings(contenders, times, options.repetitions), {{"farside", {}}, {pipe, {}}});
  report.add(figures.result(name + " p50", "ns", Better::lower, [](const Timing& timing) { return timing.p50_ns; }));
  report.add(figures.result(name + " p99", "ns", Better::lower, [](const Timing& timing) { return timing.p99_ns; }));
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
