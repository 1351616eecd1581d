// figure.h — one figure: what was measured, and what is said of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "figures/cluster_run.h"

namespace farside::figures {

struct Point {
  std::string curve;
  double x;
  Measured measured;
};

/// Something that the paper's text says of a figure, or that one would expect, held against what was measured.
struct Claim {
  std::string says;
  bool agrees;
  std::string measured;  ///< the numbers that decide
  std::string why;       ///< of a disagreement, or of what the paper leaves unexplained
};

struct Figure {
  std::uint32_t number;
  std::string title;
  std::string setup;  ///< how it was made: the machine, the sizes, what is scaled
  std::string x_label;
  std::vector<Point> points;
  std::vector<Claim> claims;

  /// Null when it was not measured.
  [[nodiscard]] const Measured* find(std::string_view curve, double x) const;
  /// Throws std::out_of_range when it was not measured.
  [[nodiscard]] const Measured& at(std::string_view curve, double x) const;
  /// In order of their first appearance.
  [[nodiscard]] std::vector<std::string> curves() const;
  /// Ascending.
  [[nodiscard]] std::vector<double> xs() const;
};

}  // namespace farside::figures
