#include "bench/far/faults.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "bench/harness/pool.h"
#include "bench/harness/timing_race.h"
#include "bench/harness/work.h"

namespace farside::bench {

namespace {

// A fault takes at most 1.3 times as long as a bare one; over a network 1.1 times as long as a bare one with a READ.
constexpr double kOverBare = 1 / 1.3;
constexpr double kOverBareWithRead = 1 / 1.1;

class Faults {
 public:
  Faults(const Fabric& fabric, const Options& options, Report& report)
      : fabric_(fabric),
        options_(options),
        report_(report),
        pages_(options.quick          ? 128
               : &fabric == &direct() ? 1024
                                      : 256),
        pool_({.nodes = 2,
               .roles = "--cache 16M --far 512M",
               .environment = fabric.environment,
               .inside = fabric.on_lender}) {}

  void measure() {
    std::vector<std::unique_ptr<Contender>> jobs;
    jobs.push_back(start_on("pager", "heap"));
    jobs.push_back(start_on("bare", "bare"));
    jobs.push_back(start_on("bare with READ", "read"));
    for (const auto& job : jobs) {
      if (job == nullptr) return;
    }
    using Wanted = std::optional<double>;
    const bool bare_counts = &fabric_ == &direct();
    const std::array wanted{Wanted(), bare_counts ? Wanted(kOverBare) : Wanted(),
                            bare_counts ? Wanted() : Wanted(kOverBareWithRead)};
    std::vector<TimingRace::Turn> turns;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      turns.push_back({jobs[i].get(), question("random"), jobs[i]->name(), wanted.at(i)});
    }
    report_.add(each_fault(TimingRace(turns, options_.repetitions)));
    for (const auto& [operation, name] : kOfPager) {
      const TimingRace::Turn turn{.contender = jobs[0].get(), .question = question(operation), .name = "pager"};
      report_.add(pages_a_second(TimingRace({&turn, 1}, options_.repetitions), name));
    }
  }

 private:
  struct OfPager {
    const char* operation;
    const char* name;
  };
  static constexpr std::array<OfPager, 5> kOfPager{{{"in_order", "read in order, with room"},
                                                    {"loop_read", "read in order, while others leave"},
                                                    {"loop_write", "written in order, while others leave"},
                                                    {"random_loop_read", "read at random, while others leave"},
                                                    {"random_loop_write", "written at random, while others leave"}}};

  [[nodiscard]] std::unique_ptr<Contender> start_on(const std::string& name, const std::string& how) {
    const Contender::Program program{{sibling_program("far-contender-faults"), how, std::to_string(pages_)},
                                     pool_.environment()};
    return start(fabric_.name + " faults, " + name, {name, fabric_.used_by(program)}, report_);
  }
  [[nodiscard]] std::string question(const std::string& operation) const {
    return bench::question(operation, pages_, options_.budget());
  }
  [[nodiscard]] Result each_fault(const TimingRace& race) const {
    const auto figure = [this](std::span<const double> times) { return times[0] / pages_; };
    return TimingRace::over_sizes({&race, 1}, fabric_.name + " fault p50", "ns", Better::lower, figure);
  }
  [[nodiscard]] Result pages_a_second(const TimingRace& race, const std::string& what) const {
    const auto figure = [this](std::span<const double> times) { return 1e9 * pages_ / times[0]; };
    return TimingRace::over_sizes({&race, 1}, fabric_.name + " pages " + what, "1/s", Better::higher, figure);
  }

  const Fabric& fabric_;
  const Options& options_;
  Report& report_;
  const unsigned pages_;
  const Pool pool_;
};

}  // namespace

void measure_faults(const Fabric& fabric, const Options& options, Report& report) {
  report.continue_table("Faults, " + fabric.name);
  Faults(fabric, options, report).measure();
}

}  // namespace farside::bench
