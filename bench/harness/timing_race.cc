#include "bench/harness/timing_race.h"

#include <algorithm>

#include "bench/harness/race.h"

namespace farside::bench {

namespace {

constexpr double kEnoughForP99 = 100;  // batches

std::vector<TimingRace::Turn> turns_of(std::span<const std::unique_ptr<Contender>> contenders,
                                       const std::string& question) {
  std::vector<TimingRace::Turn> turns;
  for (const auto& contender : contenders) turns.push_back({contender.get(), question, contender->name()});
  return turns;
}

}  // namespace

TimingRace::TimingRace(std::span<const Turn> turns, unsigned repetitions) {
  std::vector<std::function<Timing()>> askers;
  for (const Turn& turn : turns) {
    names_.push_back(turn.name);
    wanted_.push_back(turn.wanted);
    askers.emplace_back([&turn] { return Timing::from_line(turn.contender->ask(turn.question)); });
  }
  timings_ = race<Timing>(repetitions, askers);
}

TimingRace::TimingRace(std::span<const std::unique_ptr<Contender>> contenders, const std::string& question,
                       unsigned repetitions)
    : TimingRace(turns_of(contenders, question), repetitions) {}

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

Result TimingRace::over_sizes(std::span<const TimingRace> races, const std::string& name, const std::string& unit,
                              Better better, const std::function<double(std::span<const double>)>& figure) {
  std::vector<Series> all;
  for (std::size_t i = 0; i < races.front().names_.size(); ++i) {
    all.push_back({races.front().names_[i], {}, races.front().wanted_[i]});
    for (std::size_t repetition = 0; repetition < races.front().timings_[i].size(); ++repetition) {
      std::vector<double> times;
      for (const TimingRace& race : races) times.push_back(race.timings_[i][repetition].p50_ns);
      all.back().repetitions.push_back(figure(times));
    }
  }
  return compare(name, unit, better, all.front(), {all.begin() + 1, all.end()});
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
  std::vector<Series> all;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    all.push_back({names_[i], {}, wanted_[i]});
    if (i != 0 && i <= wanted.size()) all.back().wanted = wanted[i - 1];
    std::ranges::transform(timings_[i], std::back_inserter(all.back().repetitions), figure);
  }
  return compare(std::move(name), std::move(unit), better, all.front(), {all.begin() + 1, all.end()});
}

}  // namespace farside::bench
