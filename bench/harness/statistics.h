// statistics.h — what is said of a measurement that was repeated.
#pragma once

#include <span>
#include <vector>

namespace farside::bench {

/// The middle of the repetitions and their quartiles: a neighbour's burst on a shared machine moves neither far.
struct Summary {
  double median;
  double low;   ///< first quartile
  double high;  ///< third quartile

  /// Between the quartiles, as a share of the median.
  [[nodiscard]] double spread() const { return median == 0 ? 0 : (high - low) / median; }
};

/// The value below which the share `q` of `sorted` lies, interpolated between neighbours. `sorted` is not empty.
[[nodiscard]] double quantile(std::span<const double> sorted, double q);

[[nodiscard]] Summary summarize(std::vector<double> repetitions);

enum class Better { lower, higher };

/// How many times better ours is than the baseline: the median over the repetitions of each one's own ratio, since
/// the two halves of a repetition ran next to each other and met the same noise. Both have one value a repetition.
[[nodiscard]] double speedup(std::span<const double> ours, std::span<const double> baseline, Better better);

}  // namespace farside::bench
