// report.h — a figure as it is shown: curves, and what is said of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "plot/plot.h"

namespace farside::figures {

/// Something that the paper's text says of a figure, or that one would expect, held against what was measured.
struct Claim {
  std::string says;
  bool agrees;
  std::string measured;  ///< the numbers that decide
  std::string why;       ///< of a disagreement, or of what the paper leaves unexplained
};

struct Chart {
  std::uint32_t number;
  std::string setup;  ///< how it was made: the machine, the sizes, what is scaled
  std::string unit;   ///< of what is measured
  Plot plot;
  std::vector<Claim> claims;
};

/// As a table for programs: one line a point, a header line first.
void write_csv(const Chart& chart, const std::filesystem::path& file);
/// As text (Markdown): what it shows, a table, and what is said of it.
void print(const Chart& chart, std::ostream& out);

}  // namespace farside::figures
