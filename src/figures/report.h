// report.h — a figure as a table for programs (CSV), as a plot (SVG), and as text (Markdown).
#pragma once

#include <filesystem>
#include <ostream>

#include "figures/figure.h"

namespace farside::figures {

/// One line a point, a header line first.
void write_csv(const Figure& figure, const std::filesystem::path& file);
/// Throws Error when gnuplot is missing or fails.
void write_svg(const Figure& figure, const std::filesystem::path& file);
/// What it shows, the bandwidths, and what is said of it.
void print(const Figure& figure, std::ostream& out);

}  // namespace farside::figures
