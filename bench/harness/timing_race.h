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

  /// Ours comes first.
  TimingRace(std::span<const std::unique_ptr<Contender>> contenders, const std::string& question, unsigned repetitions);

  [[nodiscard]] Result p50(const std::string& name, const Wanted& wanted = {}) const;
  [[nodiscard]] Result p99(const std::string& name) const;
  /// Of operations that move `bytes` each, by their median time.
  [[nodiscard]] Result bandwidth(const std::string& name, std::uint64_t bytes, const Wanted& wanted = {}) const;

  /// Whether each repetition had enough batches for a p99 to mean something.
  [[nodiscard]] bool has_p99() const;
  /// The largest of all timings.
  [[nodiscard]] double clock_share() const;

 private:
  using Figure = std::function<double(const Timing&)>;

  [[nodiscard]] Result result(std::string name, std::string unit, Better better, const Figure& figure,
                              const Wanted& wanted) const;

  std::vector<std::string> names_;
  std::vector<std::vector<Timing>> timings_;  ///< by contender, by repetition
};

}  // namespace farside::bench
