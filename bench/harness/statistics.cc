#include "bench/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace farside::bench {

double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) throw std::invalid_argument("no repetitions to summarize");
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

Summary summarize(std::vector<double> repetitions) {
  std::ranges::sort(repetitions);
  return {quantile(repetitions, 0.5), quantile(repetitions, 0.25), quantile(repetitions, 0.75)};
}

double speedup(std::span<const double> ours, std::span<const double> baseline, Better better) {
  if (ours.size() != baseline.size()) throw std::invalid_argument("ours and baseline were not repeated equally often");
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ratios.push_back(better == Better::lower ? baseline[i] / ours[i] : ours[i] / baseline[i]);
  }
  return summarize(std::move(ratios)).median;
}

}  // namespace farside::bench
