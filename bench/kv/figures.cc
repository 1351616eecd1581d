#include "bench/kv/figures.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "bench/harness/race.h"

namespace farside::bench {

KvRace::KvRace(std::span<const Contestant> contestants, const KvQuestion& question, unsigned repetitions) {
  std::vector<std::function<KvFigures()>> askers;
  for (const Contestant& contestant : contestants) {
    names_.push_back(contestant.name);
    KvQuestion own = question;
    own.way = contestant.way;
    askers.emplace_back([&contestant, own] { return KvFigures::from_line(contestant.contender->ask(own.to_line())); });
  }
  for (const auto& ask : askers) (void)ask();  // loads, and warms up
  figures_ = race<KvFigures>(repetitions, askers);
}

Result KvRace::throughput(const std::string& name) const {
  constexpr auto kFigure = &KvFigures::per_second;
  return compare(name, "1/s", Better::higher, series(0, kFigure), others(kFigure));
}

Result KvRace::ratio(const std::string& name, const Wanted& wanted) const {
  constexpr auto kFigure = &KvFigures::per_second;
  Series baseline = series(place_of(wanted.baseline), kFigure);
  baseline.wanted = wanted.ratio;
  return compare(name + ", " + wanted.ours, "1/s", Better::higher, series(place_of(wanted.ours), kFigure), {baseline});
}

Result KvRace::time(const std::string& name, double KvFigures::*figure) const {
  return compare(name, "ns", Better::lower, series(0, figure), others(figure));
}

std::vector<double> KvRace::medians() const {
  std::vector<double> medians;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    medians.push_back(summarize(series(i, &KvFigures::per_second).repetitions).median);
  }
  return medians;
}

Series KvRace::series(std::size_t contestant, double KvFigures::*figure) const {
  Series made{names_[contestant], {}};
  for (const KvFigures& each : figures_[contestant]) made.repetitions.push_back(each.*figure);
  return made;
}

std::size_t KvRace::place_of(const std::string& name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) throw std::invalid_argument("no system under test is called " + name);
  return static_cast<std::size_t>(found - names_.begin());
}

std::vector<Series> KvRace::others(double KvFigures::*figure) const {
  std::vector<Series> made;
  for (std::size_t i = 1; i < names_.size(); ++i) made.push_back(series(i, figure));
  return made;
}

}  // namespace farside::bench
