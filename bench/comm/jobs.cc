#include "bench/comm/jobs.h"

#include <fmt/format.h>

#include "bench/harness/entrant.h"

namespace farside::bench {

namespace {

constexpr unsigned kCores = 2;  // of the machine that the wanted figures were stated for

}  // namespace

const Fabric& direct() {
  static const Fabric fabric{"direct", {{"FARSIDE_FABRIC", "direct"}}};
  return fabric;
}

const Fabric& over_tcp() {
  static const Fabric fabric{"ucx/TCP", {{"FARSIDE_FABRIC", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}}};
  return fabric;
}

std::string question(const std::string& operation, std::uint64_t amount, const Options& options) {
  return fmt::format("{} {} {}", operation, amount, options.budget().count());
}

Jobs::Jobs(const Fabric& fabric, unsigned ranks, const Options& options, Report& report)
    : fabric_(fabric), ranks_(ranks), options_(options) {
  const std::string what = fmt::format("{}, {} ranks", fabric.name, ranks);
  show_progress("starting " + what);
  const std::string command = sibling_program("../../bin/farside");
  const Contender::Program ours{
      {command, "run", "-n", std::to_string(ranks), "--", sibling_program("comm-contender-farside")},
      fabric.environment};
  farside_ = start(what, {"farside", ours}, report);
  if (farside_ == nullptr || &fabric != &direct()) return;
  mpi_ = start(what, {"Open MPI", mpi_program(ranks, "comm-contender-mpi")}, report);
}

std::string Jobs::title(const std::string& what) const {
  return fmt::format("{} {} of {} ranks", fabric_.name, what, ranks_);
}

std::uint64_t Jobs::largest_bytes() const { return &fabric_ == &direct() ? 1U << 20U : 64U << 10U; }

double Jobs::wanted_beside_mpi() const { return ranks_ > kCores ? 2 : 1; }

TimingRace::Turn Jobs::turn(const Entry& entry) const {
  return {.contender = job(entry.who),
          .question = question(entry.operation, entry.amount, options_),
          .name = entry.name.empty() ? job(entry.who)->name() : entry.name,
          .wanted = entry.wanted};
}

TimingRace Jobs::race(const std::vector<Entry>& entries) const {
  show_progress(title(entries.front().operation));
  std::vector<TimingRace::Turn> turns;
  for (const Entry& entry : entries) {
    if (job(entry.who) != nullptr) turns.push_back(turn(entry));
  }
  return TimingRace(turns, options_.repetitions);
}

TimingRace Jobs::race(const std::string& operation, std::uint64_t amount, std::optional<double> wanted) const {
  return race({{.who = Who::farside, .operation = operation, .amount = amount},
               {.who = Who::mpi, .operation = operation, .amount = amount, .wanted = wanted}});
}

}  // namespace farside::bench
