#include "bench/harness/jobs.h"

#include <fmt/format.h>

#include "bench/harness/work.h"

namespace farside::bench {

namespace {

Entrant entrant(Who who, const std::string& benchmark, const Fabric& fabric, unsigned ranks) {
  switch (who) {
    case Who::farside: return {"farside", farside_program(fabric, ranks, benchmark + "-contender-farside")};
    case Who::mpi: return {"Open MPI", mpi_program(ranks, benchmark + "-contender-mpi")};
    case Who::global_arrays: return {"Global Arrays", mpi_program(ranks, benchmark + "-contender-ga")};
  }
  return {};
}

}  // namespace

Jobs::Jobs(const std::string& benchmark, const Fabric& fabric, unsigned ranks, const Others& others,
           const Options& options, Report& report)
    : fabric_(fabric), ranks_(ranks), options_(options) {
  const std::string what = fmt::format("{}, {} ranks", fabric.name, ranks);
  show_progress("starting " + what);
  const auto begin = [&](Who who) {
    Entrant one = entrant(who, benchmark, fabric, ranks);
    if (who != Who::farside) one.program.environment = others.environment;
    if (auto job = start(fmt::format("{}, {}", what, one.name), one, report)) started_.emplace(who, std::move(job));
  };
  begin(Who::farside);
  if (!started() || !on_memory()) return;
  for (const Who other : others.who) begin(other);
}

std::string Jobs::title(const std::string& what) const {
  return fmt::format("{} {} of {} ranks", fabric_.name, what, ranks_);
}

TimingRace::Turn Jobs::turn(const Entry& entry) const {
  Contender* const job = started_.at(entry.who).get();
  return {.contender = job,
          .question = question(entry.operation, entry.amount, options_.budget()),
          .name = entry.name.empty() ? job->name() : entry.name,
          .wanted = entry.wanted};
}

TimingRace Jobs::race(const std::vector<Entry>& entries) const {
  show_progress(title(entries.front().operation));
  std::vector<TimingRace::Turn> turns;
  for (const Entry& entry : entries) {
    if (started_.contains(entry.who)) turns.push_back(turn(entry));
  }
  return TimingRace(turns, options_.repetitions);
}

TimingRace Jobs::race(const std::string& operation, std::uint64_t amount, std::optional<double> wanted) const {
  std::vector<Entry> entries;
  for (const auto& [who, job] : started_) {
    entries.push_back({.who = who, .operation = operation, .amount = amount, .wanted = wanted});
  }
  entries.front().wanted.reset();
  return race(entries);
}

}  // namespace farside::bench
