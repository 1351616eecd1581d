#include "cli/table.h"

#include <algorithm>

#include <fmt/format.h>

namespace farside::cli {

void Table::print(std::ostream& out) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      line += columns_[i] == Align::right ? blanks + row[i] : row[i] + blanks;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

std::string latency_text(std::uint64_t nanoseconds) {
  const auto ns = static_cast<double>(nanoseconds);
  if (ns < 1e6) return fmt::format("{:.1f} us", ns / 1e3);
  return ns < 1e9 ? fmt::format("{:.1f} ms", ns / 1e6) : fmt::format("{:.1f} s", ns / 1e9);
}

}  // namespace farside::cli
