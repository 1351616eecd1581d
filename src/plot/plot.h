// plot.h — curves as an SVG file, drawn by gnuplot.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace farside {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

struct Axis {
  std::string label;
  std::string format = "%g";  ///< of its numbers, as gnuplot takes it
  bool logarithmic = true;
};

struct Plot {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Curve> curves;
};

/// Throws Error when gnuplot is missing or fails.
void draw(const Plot& plot, const std::filesystem::path& svg);

}  // namespace farside
