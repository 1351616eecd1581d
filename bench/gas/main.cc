// farside bench gas: pages that move, beside the bare fabric, Open MPI and Global Arrays.
#include <array>

#include <fmt/format.h>

#include "farside/base/units.h"

#include "bench/gas/amounts.h"
#include "bench/harness/jobs.h"

namespace farside::bench {
namespace {

constexpr unsigned kFigureRanks = 3;  // requester, home and owner, as in the paper
constexpr std::array<unsigned, 3> kRanks{2, 4, 8};
constexpr std::array<unsigned, 4> kSharers{0, 1, 3, 7};
constexpr std::uint64_t kMaxQuick = 4 << 10;  // bytes, in a quick run
constexpr unsigned kMaxQuickRanks = 4;        // on memory, and 2 over TCP

// What is wanted.
constexpr double kByMessage = 10;    // times faster than asking the home each time
constexpr double kBesideOthers = 1;  // as fast as what cannot move
constexpr std::uint64_t kBulkBytes = 4096;
constexpr double kBulkOnMemory = 1 / 1.3;  // of a bare operation, from kBulkBytes on
constexpr double kMaxOverhead_ns = 30;     // on memory, of smaller ones
constexpr double kOverTcp = 1 / 1.05;
constexpr double kAnyNumber = 1 / 1.25;  // of pages
constexpr double kAnyRanks = 1 / 1.25;   // one sharer of many ranks beside one of two

const std::vector<Who> kOthers{Who::mpi, Who::global_arrays};
/// Of those whose ranks sleep but for one: MPI offers its core after each operation where ranks exceed cores.
const std::map<std::string, std::string> kAlone{{"OMPI_MCA_mpi_yield_when_idle", "0"}};

/// At most so much longer than `baseline`, as a ratio of what was measured here.
void want_on_top(Result& result, const std::string& baseline, double most_ns) {
  for (Comparison& comparison : result.baselines) {
    if (comparison.baseline != baseline) continue;
    comparison.wanted = comparison.summary.median / (comparison.summary.median + most_ns);
  }
}

// The paper's figure: requester, home and owner are three ranks, and a page is got again and again.
void measure_transfers(const Jobs& jobs, bool quick, Report& report) {
  const auto add = [&](const std::string& operation, const std::string& bare, const std::vector<Entry>& more) {
    for (const std::uint64_t bytes : kSizes) {
      if (quick && bytes > kMaxQuick) continue;
      std::vector<Entry> entries{{.who = Who::farside, .operation = operation},
                                 {.who = Who::farside,
                                  .operation = bare,
                                  .name = "bare fabric",
                                  .wanted = jobs.on_memory() ? kBulkOnMemory : kOverTcp},
                                 {.who = Who::mpi, .operation = operation, .wanted = kBesideOthers},
                                 {.who = Who::global_arrays, .operation = operation, .wanted = kBesideOthers}};
      entries.insert(entries.end(), more.begin(), more.end());
      for (Entry& entry : entries) entry.amount = bytes;
      Result p50 = jobs.race(entries).p50(fmt::format("{} {} {}", jobs.fabric(), operation, format_bytes(bytes)));
      if (jobs.on_memory() && bytes < kBulkBytes) want_on_top(p50, "bare fabric", kMaxOverhead_ns);
      report.add(p50);
    }
  };
  report.continue_table(jobs.fabric() + ": get of a page, its place remembered, looked up or asked for");
  add("get", "read",
      {{.who = Who::farside, .operation = "get-by-message", .name = "by message", .wanted = kByMessage},
       {.who = Who::farside, .operation = "get-by-lookup", .name = "by lookup"}});
  report.continue_table(jobs.fabric() + ": put of a page");
  add("put", "write", {});
}

void measure_moves(const Jobs& jobs, bool quick, Report& report) {
  report.continue_table(jobs.fabric() + ": own of a page");
  for (const std::uint64_t bytes : kSizes) {
    if (bytes < 64 || (quick && bytes > kMaxQuick)) continue;
    const TimingRace race =
        jobs.race({{.who = Who::farside, .operation = "own", .amount = bytes},
                   {.who = Who::farside, .operation = "get", .amount = bytes, .name = "get of it"}});
    report.add(race.p50(fmt::format("{} own {}", jobs.fabric(), format_bytes(bytes))));
  }
}

/// By page: as fast for many as for few.
void measure_many(const Jobs& jobs, bool quick, Report& report) {
  report.continue_table(jobs.fabric() + ": own of many pages of 64 B at once, by page");
  for (const std::uint64_t pages : kManyPages) {
    if (pages == kManyPages.front() || quick || !jobs.on_memory()) continue;
    const TimingRace race = jobs.race({{.who = Who::farside, .operation = "own-many", .amount = pages},
                                       {.who = Who::farside,
                                        .operation = "own-many",
                                        .amount = kManyPages.front(),
                                        .name = fmt::format("of {} pages", kManyPages.front()),
                                        .wanted = kAnyNumber}});
    report.add(race.p50(fmt::format("{} own of {} pages", jobs.fabric(), pages)));
  }
}

void measure_sharers(const Jobs& jobs, bool quick, Report& report) {
  report.continue_table(fmt::format("{}: own of a page that ranks of {} remember", jobs.fabric(), jobs.ranks()));
  for (const unsigned sharers : kSharers) {
    if (sharers >= jobs.ranks() || (quick && sharers > 1)) continue;
    const TimingRace race =
        jobs.race({{.who = Who::farside, .operation = "own-shared", .amount = sharers},
                   {.who = Who::farside, .operation = "own-shared", .amount = 0, .name = "without sharers"}});
    report.add(race.p50(fmt::format("{} own 4 KiB with {} sharers", jobs.fabric(), sharers)));
  }
}

/// Beside the same between two ranks.
void measure_one_sharer(const Jobs& jobs, const Jobs& pair, const Options& options, Report& report) {
  report.continue_table(jobs.fabric() + ": own of a page that one rank remembers");
  const Entry entry{.who = Who::farside, .operation = "own-shared", .amount = 1};
  TimingRace::Turn among_two = pair.turn(entry);
  among_two.name = "of 2 ranks";
  among_two.wanted = kAnyRanks;
  const TimingRace race(std::vector{jobs.turn(entry), among_two}, options.repetitions);
  report.add(race.p50(jobs.title("own with a sharer")));
}

// All ranks at once.
void measure_elements(const Jobs& jobs, bool quick, Report& report) {
  struct Access {
    const char* operation;
    const char* name;
    std::uint64_t bytes;
    std::uint64_t times_on_memory;  ///< in a round
    std::uint64_t times_over_tcp;
  };
  static constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  static constexpr std::array<Access, 4> kAccesses{{
      {"update", "fetch_add", kWord, 4096, 16},
      {"get-element", "random get", kWord, 4096, 16},
      {"gather", "gather of 1024", kGathered * kWord, 8, 1},
      {"get-run", "get of 1 MiB", kElementsOfRun * kWord, 4, 1},
  }};
  report.continue_table(jobs.fabric() + ": elements of one array, by all ranks at once");
  for (const Access& access : kAccesses) {
    const std::uint64_t times = quick || !jobs.on_memory() ? access.times_over_tcp : access.times_on_memory;
    const TimingRace race = jobs.race(access.operation, times, kBesideOthers);
    const std::string name = jobs.title(access.name);
    report.add(race.p50(name));
    if (access.bytes > kWord) report.add(race.bandwidth(name, jobs.ranks() * access.bytes));
  }
}

void measure_fabric(const Fabric& fabric, const Options& options, Report& report) {
  {
    const Jobs figure("gas", fabric, kFigureRanks, {kOthers, kAlone}, options, report);
    if (!figure.started()) return;
    measure_transfers(figure, options.quick, report);
    measure_moves(figure, options.quick, report);
    measure_many(figure, options.quick, report);
  }
  const Jobs pair("gas", fabric, kRanks.front(), {kOthers}, options, report);
  if (!pair.started()) return;
  measure_elements(pair, options.quick, report);
  const unsigned most_ranks = !options.quick ? kRanks.back() : pair.on_memory() ? kMaxQuickRanks : kRanks.front();
  for (const unsigned ranks : kRanks) {
    if (ranks == kRanks.front() || ranks > most_ranks) continue;
    const Jobs jobs("gas", fabric, ranks, {kOthers}, options, report);
    if (!jobs.started()) continue;
    measure_elements(jobs, options.quick, report);
    measure_one_sharer(jobs, pair, options, report);
    if (ranks == most_ranks) measure_sharers(jobs, options.quick, report);
  }
}

void measure(const Options& options, Report& report) {
  for (const Fabric* fabric : {&direct(), &over_tcp()}) measure_fabric(*fabric, options, report);
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::run_program(argc, argv, "gas", "pages that move beside the bare fabric and Global Arrays",
                                     farside::bench::measure);
}
