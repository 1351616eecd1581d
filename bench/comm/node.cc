#include <fmt/format.h>

#include "bench/comm/amounts.h"
#include "bench/comm/tables.h"
#include "bench/harness/entrant.h"

namespace farside::bench {
namespace {

constexpr unsigned kMaxThreads = 4;

}  // namespace

void measure_node(const Options& options, Report& report) {
  const auto threads =
      start("threads of one process", {"threads", {{sibling_program("comm-contender-threads")}}}, report);
  if (threads == nullptr) return;
  const auto turn = [&](const std::string& operation, unsigned count, const std::string& name) {
    return TimingRace::Turn{threads.get(), question(operation, count, options.budget()), name};
  };
  report.continue_table("one node: memory bandwidth by threads (table 1)");
  for (const char* operation : {"read", "write", "copy"}) {
    for (unsigned count = 1; count <= kMaxThreads; ++count) {
      const std::string name = fmt::format("{} by {} threads", operation, count);
      show_progress(name);
      const TimingRace race(std::vector{turn(operation, count, "threads")}, options.repetitions);
      report.add(race.bandwidth(name, count * kStreamedBytes));
    }
  }
  report.continue_table("one node: barriers of ranks, beside threads of one process (table 2)");
  for (unsigned count = 2; count <= kMaxThreads; ++count) {
    const Jobs ranks("comm", direct(), count, {}, options, report);
    if (!ranks.started()) return;
    const std::string name = fmt::format("one node, barrier of {}", count);
    show_progress(name);
    const TimingRace race(
        std::vector{ranks.turn({.who = Who::farside, .operation = "barrier"}),
                    turn("std-barrier", count, "std::barrier of threads"), turn("flags", count, "flags of threads")},
        options.repetitions);
    report.add(race.p50(name));
  }
}

}  // namespace farside::bench
