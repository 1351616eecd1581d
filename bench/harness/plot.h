// plot.h — curves as an SVG file, drawn by gnuplot.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace farside::bench {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< bytes, seconds
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
};

/// Both axes logarithmic. Throws Error when gnuplot is missing or fails.
void draw(const Plot& plot, const std::filesystem::path& svg);

}  // namespace farside::bench
