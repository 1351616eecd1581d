// figure.h — one figure of the cache: what was measured at each of its points, and what is said of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "figures/cluster_run.h"
#include "figures/report.h"

namespace farside::figures {

struct Point {
  std::string curve;
  double x;
  Measured measured;
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

  /// Its bandwidths.
  [[nodiscard]] Chart chart() const;
};

/// One line a point with all that was measured, a header line first.
void write_csv(const Figure& figure, const std::filesystem::path& file);

}  // namespace farside::figures
