// timing_race.h — contenders that answer a question with a Timing, asked in turns.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/contender.h"
#include "bench/harness/report.h"
#include "bench/harness/timing.h"

namespace farside::bench {

class TimingRace {
 public:
  /// The speedup wanted over each baseline, in their order; may be shorter.
  using Wanted = std::vector<std::optional<double>>;

  /// One who is asked in each repetition.
  struct Turn {
    Contender* contender;
    std::string question;
    std::string name;                   ///< in the report
    std::optional<double> wanted = {};  ///< of a baseline, where the result says nothing else
  };

  /// Ours comes first.
  TimingRace(std::span<const Turn> turns, unsigned repetitions);
  /// All are asked the same.
  TimingRace(std::span<const std::unique_ptr<Contender>> contenders, const std::string& question, unsigned repetitions);

  [[nodiscard]] Result p50(const std::string& name, const Wanted& wanted = {}) const;
  [[nodiscard]] Result p99(const std::string& name) const;
  /// Of operations that move `bytes` each, by their median time.
  [[nodiscard]] Result bandwidth(const std::string& name, std::uint64_t bytes, const Wanted& wanted = {}) const;

  /// What `figure` makes of the median times at each of several sizes, in nanoseconds: `races` are of the same turns.
  [[nodiscard]] static Result over_sizes(std::span<const TimingRace> races, const std::string& name,
                                         const std::string& unit, Better better,
                                         const std::function<double(std::span<const double>)>& figure);

  /// Whether each repetition had enough batches for a p99 to mean something.
  [[nodiscard]] bool has_p99() const;
  /// The largest of all timings.
  [[nodiscard]] double clock_share() const;

 private:
  using Figure = std::function<double(const Timing&)>;

  [[nodiscard]] Result result(std::string name, std::string unit, Better better, const Figure& figure,
                              const Wanted& wanted) const;

  std::vector<std::string> names_;
  Wanted wanted_;                             ///< by contender
  std::vector<std::vector<Timing>> timings_;  ///< by contender, by repetition
};

}  // namespace farside::bench
