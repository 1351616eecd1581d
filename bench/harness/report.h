// report.h — what a benchmark found: a table for people, JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/harness/statistics.h"

namespace farside::bench {

/// One contender's repetitions of one measurement.
struct Series {
  std::string name;
  std::vector<double> repetitions;
  std::optional<double> wanted = {};  ///< of a baseline: the speedup over it that farside set out for
};

struct Comparison {
  std::string baseline;
  Summary summary;
  double speedup;  ///< above 1: ours is better, whatever the unit's direction
  std::optional<double> wanted;
};

struct Result {
  std::string name;
  std::string unit;
  Summary ours;
  std::vector<Comparison> baselines;
  std::string table = {};  ///< the title of the table that it stands in
};

[[nodiscard]] Result compare(std::string name, std::string unit, Better better, const Series& ours,
                             const std::vector<Series>& baselines);

class Report {
 public:
  /// `quick`: fewer, shorter repetitions were made; a test of the benchmark, not a measurement.
  Report(std::string title, bool quick) : title_(std::move(title)), quick_(quick) {}

  /// What is added from here on stands in the table with this title, below what is in it already.
  void continue_table(std::string title) { title_of_table_ = std::move(title); }
  void add(Result result);
  /// Says why something that belongs to the benchmark is missing from the results.
  void not_measured(std::string what, std::string why) { gaps_.push_back({std::move(what), std::move(why)}); }
  /// The clock took `share` of what was timed. The largest is kept, and warned of above 2 %.
  void note_clock_share(double share) { clock_share_ = std::max(clock_share_, share); }

  /// The table, what was missed, and warnings.
  [[nodiscard]] std::string table() const;
  /// Machine, date, version; one row for each result and baseline, so that (name, baseline) is unique.
  [[nodiscard]] std::string json() const;

  [[nodiscard]] const std::vector<Result>& results() const noexcept { return results_; }

 private:
  struct Gap {
    std::string what;
    std::string why;
  };

  [[nodiscard]] std::vector<std::string> warnings() const;

  std::string title_;
  bool quick_;
  std::vector<Result> results_;  ///< table by table
  std::string title_of_table_;
  std::vector<Gap> gaps_;
  double clock_share_ = 0;
};

}  // namespace farside::bench
