#include "bench/far/layers.h"

#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "farside/base/units.h"

#include "bench/harness/entrant.h"
#include "bench/harness/pool.h"
#include "bench/harness/program.h"
#include "bench/harness/timing_race.h"
#include "bench/harness/work.h"
#include "plot/plot.h"

namespace farside::bench {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::array<std::uint64_t, 6> kSizes{4096, 16384, 65536, 262144, kMiB, 4 * kMiB};
constexpr std::uint64_t kSizeInPieces = 2 * kMiB;

// The device takes at most 1.2 times as long.
constexpr double kOverNbdkitsMemory = 1 / 1.2;

const std::string kContender = "far-contender-io";

class Layers {
 public:
  Layers(const Fabric& fabric, const Options& options, Report& report)
      : fabric_(fabric),
        options_(options),
        report_(report),
        bytes_((options.quick ? 16 : 256) * kMiB),
        pool_(
            {.nodes = 2, .roles = fmt::format("--cache 16M --far {}", bytes_ * 2), .environment = fabric.environment}) {
  }

  void measure();

 private:
  using Job = std::unique_ptr<Contender>;

  [[nodiscard]] Job start_on(const std::string& name, const std::vector<std::string>& target) {
    Contender::Program program{{sibling_program(kContender), std::to_string(bytes_)}, pool_.environment()};
    program.command.insert(program.command.end(), target.begin(), target.end());
    return start(fabric_.name + " " + name, {name, program}, report_);
  }
  [[nodiscard]] std::string question(const std::string& operation, std::uint64_t bytes) const {
    return bench::question(operation, bytes, options_.budget());
  }
  void measure_sizes(const std::string& operation, std::span<const Job> jobs);
  void measure_pieces(Contender& job);

  const Fabric& fabric_;
  const Options& options_;
  Report& report_;
  const std::uint64_t bytes_;
  const Folder folder_;  ///< for the file on a disk
  const Pool pool_;
};

void Layers::measure() {
  const std::string size = fmt::format("size={}", bytes_);
  std::vector<Job> jobs;
  jobs.push_back(start_on("device", {"nbdkit", sibling_program(FARSIDE_NBD_PLUGIN), size}));
  jobs.push_back(start_on("pool", {"pool"}));
  if (&fabric_ == &direct()) {
    jobs.push_back(start_on("nbdkit's memory", {"nbdkit", "memory", size}));
    jobs.push_back(start_on("disk", {"file", folder_.make_file("file", bytes_)}));
  }
  for (const Job& job : jobs) {
    if (job == nullptr) return;
  }
  for (const char* operation : {"read", "write"}) measure_sizes(operation, jobs);
  for (std::size_t i = 0; i < 2; ++i) measure_pieces(*jobs[i]);
}

void Layers::measure_sizes(const std::string& operation, std::span<const Job> jobs) {
  std::vector<Curve> curves(jobs.size());
  for (const std::uint64_t bytes : kSizes) {
    const std::string name = fmt::format("{} random {} of {}", fabric_.name, operation, format_bytes(bytes));
    show_progress(name);
    const TimingRace race(jobs, question(operation, bytes), options_.repetitions);
    const Result found = race.bandwidth(name, bytes, {{}, kOverNbdkitsMemory});
    report_.add(race.p50(name, {{}, kOverNbdkitsMemory}));
    report_.add(found);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const Summary& summary = i == 0 ? found.ours : found.baselines[i - 1].summary;
      curves[i].name = jobs[i]->name();
      curves[i].points.emplace_back(bytes, summary.median);
    }
  }
  if (options_.plots.empty()) return;
  draw({.title = fmt::format("Random {}s, one after the other ({})", operation, fabric_.name),
        .x = {"bytes"},
        .y = {"GB/s"},
        .curves = curves},
       options_.plots / fmt::format("far-{}-{}.svg", operation, &fabric_ == &direct() ? "direct" : "tcp"));
}

/// What it costs that a kernel hands a device 128 KiB at most.
void Layers::measure_pieces(Contender& job) {
  const std::array<TimingRace::Turn, 2> turns{
      {{.contender = &job, .question = question("read", kSizeInPieces), .name = "at once"},
       {.contender = &job, .question = question("read_in_pieces", kSizeInPieces), .name = "by 128 KiB"}}};
  const std::string name = fmt::format("{} random read of 2 MiB, {}", fabric_.name, job.name());
  report_.add(TimingRace(turns, options_.repetitions).bandwidth(name, kSizeInPieces));
}

}  // namespace

void measure_layers(const Fabric& fabric, const Options& options, Report& report) {
  report.continue_table("Random reads and writes, " + fabric.name);
  Layers(fabric, options, report).measure();
}

}  // namespace farside::bench
