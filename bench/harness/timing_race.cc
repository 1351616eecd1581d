#include "bench/harness/timing_race.h"

#include <algorithm>

#include "bench/harness/race.h"

namespace farside::bench {

namespace {

constexpr double kEnoughForP99 = 100;  // batches

}  // namespace

TimingRace::TimingRace(std::span<const std::unique_ptr<Contender>> contenders, const std::string& question,
                       unsigned repetitions) {
  std::vector<std::function<Timing()>> turns;
  for (const auto& contender : contenders) {
    names_.push_back(contender->name());
    turns.emplace_back([&contender, &question] { return Timing::from_line(contender->ask(question)); });
  }
  timings_ = race<Timing>(repetitions, turns);
}

Result TimingRace::p50(const std::string& name, const Wanted& wanted) const {
  return result(
      name + " p50", "ns", Better::lower, [](const Timing& timing) { return timing.p50_ns; }, wanted);
}

Result TimingRace::p99(const std::string& name) const {
  return result(name + " p99", "ns", Better::lower, [](const Timing& timing) { return timing.p99_ns; }, {});
}

Result TimingRace::bandwidth(const std::string& name, std::uint64_t bytes, const Wanted& wanted) const {
  const auto figure = [bytes](const Timing& timing) { return static_cast<double>(bytes) / timing.p50_ns; };
  return result(name + " bandwidth", "GB/s", Better::higher, figure, wanted);
}

bool TimingRace::has_p99() const {
  return std::ranges::all_of(timings_, [](const std::vector<Timing>& own) {
    return std::ranges::all_of(own, [](const Timing& timing) { return timing.batches >= kEnoughForP99; });
  });
}

double TimingRace::clock_share() const {
  double largest = 0;
  for (const std::vector<Timing>& own : timings_) {
    for (const Timing& timing : own) largest = std::max(largest, timing.clock_share);
  }
  return largest;
}

Result TimingRace::result(std::string name, std::string unit, Better better, const Figure& figure,
                          const Wanted& wanted) const {
  std::vector<Series> series;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    series.push_back({names_[i], {}});
    if (i != 0 && i <= wanted.size()) series.back().wanted = wanted[i - 1];
    std::ranges::transform(timings_[i], std::back_inserter(series.back().repetitions), figure);
  }
  return compare(std::move(name), std::move(unit), better, series.front(), {series.begin() + 1, series.end()});
}

}  // namespace farside::bench
