// farside bench arrays: arrays without barriers beside arrays with, and beside loops written by hand.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/harness/entrant.h"
#include "bench/harness/program.h"
#include "bench/harness/timing_race.h"
#include "bench/harness/work.h"

namespace farside::bench {
namespace {

constexpr std::array<unsigned, 2> kRanks{2, 4};
constexpr std::array<std::uint64_t, 5> kSquares{16, 64, 256, 512, 1024};  // of cshift: N x N
constexpr std::array<std::uint64_t, 3> kCounts{10'000, 1'000'000, 10'000'000};
constexpr std::uint64_t kGrid = 1024;  // of Laplace's equation, as in the paper
constexpr std::uint64_t kLargestQuickly = 10'000;
constexpr double kByHand = 1 / 1.1;  // no slower than that

std::unique_ptr<Contender> start_job(const Fabric& fabric, unsigned ranks, const std::string& name, bool strict,
                                     Report& report) {
  const std::vector<std::string> arguments = strict ? std::vector<std::string>{"strict"} : std::vector<std::string>{};
  return start(fmt::format("{}, {} ranks", fabric.name, ranks),
               {name, farside_program(fabric, ranks, "arrays-contender-farside", arguments)}, report);
}

// The paper's figure 9.
void measure_shifts(const Fabric& fabric, unsigned ranks, const Options& options, Report& report) {
  const auto relaxed = start_job(fabric, ranks, "farside", false, report);
  const auto strict = start_job(fabric, ranks, "bulk-synchronous", true, report);
  if (relaxed == nullptr || strict == nullptr) return;
  report.continue_table(fabric.name + ": cshift by one row, relaxed and between barriers (figure 9)");
  for (const std::uint64_t size : kSquares) {
    if (options.quick && size * size > kLargestQuickly) continue;
    const std::string name = fmt::format("{} cshift {}x{} of {} ranks", fabric.name, size, size, ranks);
    show_progress(name);
    const std::string asked = question("cshift", size, options.budget());
    const std::vector<TimingRace::Turn> turns{{.contender = relaxed.get(), .question = asked, .name = relaxed->name()},
                                              {.contender = strict.get(), .question = asked, .name = strict->name()}};
    report.add(TimingRace(turns, options.repetitions).p50(name));
  }
  // Figure 7, as far as the cores of this machine can show it.
  report.continue_table(fabric.name + ": an iteration for Laplace's equation, with and without overlap");
  const std::uint64_t size = options.quick ? 64 : kGrid;
  const std::string name = fmt::format("{} laplace {}x{} of {} ranks", fabric.name, size, size, ranks);
  show_progress(name);
  const std::vector<TimingRace::Turn> turns{
      {.contender = relaxed.get(), .question = question("laplace", size, options.budget()), .name = relaxed->name()},
      {.contender = relaxed.get(),
       .question = question("laplace-waiting", size, options.budget()),
       .name = "no overlap"},
      {.contender = strict.get(),
       .question = question("laplace-waiting", size, options.budget()),
       .name = strict->name()}};
  report.add(TimingRace(turns, options.repetitions).p50(name));
}

void measure_loops(const Options& options, Report& report) {
  const auto ours = start_job(direct(), 1, "farside", false, report);
  const auto by_hand = start("loops", {"OpenMP", {{sibling_program("arrays-contender-openmp")}}}, report);
  if (ours == nullptr || by_hand == nullptr) return;
  report.continue_table("one process, all cores: beside OpenMP loops written by hand");
  for (const std::string operation : {"expression", "sum"}) {
    for (const std::uint64_t count : kCounts) {
      if (options.quick && count > kLargestQuickly) continue;
      const std::string name = fmt::format("{} of {} doubles", operation, count);
      show_progress(name);
      const std::string asked = question(operation, count, options.budget());
      const std::vector<TimingRace::Turn> turns{
          {.contender = ours.get(), .question = asked, .name = ours->name()},
          {.contender = by_hand.get(), .question = asked, .name = by_hand->name(), .wanted = kByHand}};
      report.add(TimingRace(turns, options.repetitions).p50(name));
    }
  }
}

void measure(const Options& options, Report& report) {
  measure_loops(options, report);
  for (const Fabric* fabric : {&direct(), &over_tcp()}) {
    for (const unsigned ranks : kRanks) {
      if (!options.quick || ranks == kRanks.front()) measure_shifts(*fabric, ranks, options, report);
    }
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::run_program(argc, argv, "arrays", "arrays, beside barriers and loops written by hand",
                                     farside::bench::measure);
}
