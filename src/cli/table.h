// table.h — columns for people.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace farside::cli {

class Table {
 public:
  enum class Align : bool { left, right };

  /// One alignment for each column.
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}

  /// One cell for each column. An empty last cell leaves no blanks at the end of the line.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print(std::ostream& out) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "12.3 us", "4.5 ms", "1.2 s".
[[nodiscard]] std::string latency_text(std::uint64_t nanoseconds);

}  // namespace farside::cli
