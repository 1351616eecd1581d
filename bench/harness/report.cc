#include "bench/harness/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/harness/machine.h"

namespace farside::bench {

namespace {

constexpr double kHugeSpread = 0.3;
constexpr double kDearClock = 0.02;
constexpr double kTie = 0.03;  // two runs of the same program differ by as much

std::string number(double value) { return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value); }

bool missed(const Comparison& comparison) {
  return comparison.wanted && comparison.speedup < *comparison.wanted * (1 - kTie);
}

constexpr std::size_t kBaselineWidth = 22;

/// A row's cells of its baselines, each as wide as its heading.
std::string baseline_cells(const Result& result) {
  std::string cells;
  for (const Comparison& comparison : result.baselines) {
    const std::string cell = fmt::format("{:>9} {:>7.2f}x{}", number(comparison.summary.median), comparison.speedup,
                                         missed(comparison) ? " !" : "");
    cells += fmt::format(" | {:<{}}", cell, std::max(kBaselineWidth, comparison.baseline.size()));
  }
  return cells;
}

std::string baseline_headings(const Result& result) {
  std::string headings;
  for (const Comparison& comparison : result.baselines) {
    headings += fmt::format(" | {:<{}}", comparison.baseline, kBaselineWidth);
  }
  return headings;
}

nlohmann::json json_row(const Result& result) {
  return {{"table", result.table},        {"name", result.name},    {"unit", result.unit},
          {"median", result.ours.median}, {"low", result.ours.low}, {"high", result.ours.high}};
}

nlohmann::json json_row(const Result& result, const Comparison& comparison) {
  nlohmann::json row = json_row(result);
  row["baseline"] = comparison.baseline;
  row["baseline_median"] = comparison.summary.median;
  row["speedup"] = comparison.speedup;
  if (comparison.wanted) row["wanted_speedup"] = *comparison.wanted;
  return row;
}

}  // namespace

Result compare(std::string name, std::string unit, Better better, const Series& ours,
               const std::vector<Series>& baselines) {
  Result result{std::move(name), std::move(unit), summarize(ours.repetitions), {}, {}};
  for (const Series& baseline : baselines) {
    result.baselines.push_back({baseline.name, summarize(baseline.repetitions),
                                speedup(ours.repetitions, baseline.repetitions, better), baseline.wanted});
  }
  return result;
}

void Report::add(Result result) {
  result.table = title_of_table_;
  const auto last = std::ranges::find(results_.rbegin(), results_.rend(), result.table, &Result::table);
  results_.insert(last == results_.rend() ? results_.end() : last.base(), std::move(result));
}

std::vector<std::string> Report::warnings() const {
  std::vector<std::string> warnings;
  if (quick_) warnings.emplace_back("a quick run: it tests the benchmark and is no measurement");
  if (clock_share_ > kDearClock) {
    warnings.push_back(fmt::format("reading the clock took up to {:.1f} % of what was timed", clock_share_ * 100));
  }
  const auto huge = [](const Result& result) {
    return result.ours.spread() > kHugeSpread || std::ranges::any_of(result.baselines, [](const Comparison& baseline) {
             return baseline.summary.spread() > kHugeSpread;
           });
  };
  if (const auto count = std::ranges::count_if(results_, huge); count != 0) {
    warnings.push_back(fmt::format("{} of {} results spread by more than {:.0f} % between their quartiles (marked ~)",
                                   count, results_.size(), kHugeSpread * 100));
  }
  return warnings;
}

std::string Report::table() const {
  const Machine machine = this_machine();
  std::string text = fmt::format("{}\nfarside {}, {}, {}, {} cores, {} GiB, Linux {}\n", title_, farside_version(),
                                 utc_date(), machine.cpu, machine.cores, machine.memory_bytes >> 30, machine.kernel);
  std::size_t width = 0;
  for (const Result& result : results_) width = std::max(width, result.name.size());
  std::string headings;
  std::string title;
  for (const Result& result : results_) {
    const bool begins_table = result.table != title;
    if (begins_table) text += fmt::format("\n== {}\n", title = result.table);
    if (std::string own = baseline_headings(result); own != headings || begins_table) {
      headings = std::move(own);
      text += fmt::format("\n{:<{}}  {:<38}{}\n", "", width, "farside", headings);
    }
    const std::string ours =
        fmt::format("{:>9} {:<5} ({} .. {}){}", number(result.ours.median), result.unit, number(result.ours.low),
                    number(result.ours.high), result.ours.spread() > kHugeSpread ? " ~" : "");
    text += fmt::format("{:<{}}  {:<38}{}\n", result.name, width, ours, baseline_cells(result));
  }
  text += "\nmedian (first .. third quartile); x: times better than the baseline; !: over 3 % less than was wanted\n";
  for (const Gap& gap : gaps_) text += fmt::format("not measured: {}: {}\n", gap.what, gap.why);
  for (const std::string& warning : warnings()) text += fmt::format("warning: {}\n", warning);
  return text;
}

std::string Report::json() const {
  const Machine machine = this_machine();
  nlohmann::json document{
      {"benchmark", title_},
      {"farside", farside_version()},
      {"date", utc_date()},
      {"quick", quick_},
      {"machine",
       {{"cpu", machine.cpu},
        {"cores", machine.cores},
        {"memory_bytes", machine.memory_bytes},
        {"kernel", machine.kernel}}},
      {"results", nlohmann::json::array()},
      {"not_measured", nlohmann::json::array()},
      {"warnings", warnings()},
  };
  for (const Result& result : results_) {
    if (result.baselines.empty()) document["results"].push_back(json_row(result));
    for (const Comparison& comparison : result.baselines) document["results"].push_back(json_row(result, comparison));
  }
  for (const Gap& gap : gaps_) document["not_measured"].push_back({{"what", gap.what}, {"why", gap.why}});
  return document.dump(2) + "\n";
}

}  // namespace farside::bench
