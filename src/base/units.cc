#include "farside/base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "farside/base/error.h"

namespace farside {

namespace {

// The leading number of `text` and the unit behind it; a negative number stands for "no number here".
std::pair<double, std::string_view> split_number(std::string_view text) {
  double value = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (code != std::errc{} || !std::isfinite(value)) return {-1, text};
  return {value, text.substr(static_cast<std::size_t>(end - text.data()))};
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::string_view what) {
  const auto [value, unit] = split_number(text);
  constexpr std::string_view kLetters = "KMGTP";
  double scale = 1;
  bool known = unit.empty() || unit == "B";
  if (!known) {
    const auto power = kLetters.find(unit.front());
    const std::string_view rest = unit.substr(1);
    known = power != std::string_view::npos && (rest.empty() || rest == "B" || rest == "iB");
    scale = std::pow(1024.0, static_cast<double>(power) + 1);
  }
  constexpr double kLimit = 9.2e18;
  if (value < 0 || !known || value * scale > kLimit || std::floor(value * scale) != value * scale) {
    throw UsageError({"read the size given for", std::string(what), "'" + std::string(text) + "' is not a size",
                      "write a number of bytes such as 4096, 64K, 1.5G or 2TiB"});
  }
  return static_cast<std::uint64_t>(value * scale);
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  const bool whole = std::floor(value) == value;
  std::snprintf(text.data(), text.size(), whole ? "%.0f %s" : "%.1f %s", value, kUnits.at(unit));
  return text.data();
}

std::chrono::milliseconds parse_duration(std::string_view text, std::string_view what) {
  const auto [value, unit] = split_number(text);
  const double scale = unit == "ms" ? 1 : unit == "s" ? 1e3 : unit == "m" ? 6e4 : unit == "h" ? 3.6e6 : 0;
  constexpr double kLimit_ms = 3.2e12;  // a hundred years, which fit in nanoseconds behind any clock's reading
  if (value < 0 || scale == 0 || value * scale > kLimit_ms) {
    throw UsageError({"read the time given for", std::string(what), "'" + std::string(text) + "' is not a time",
                      "write a number with ms, s, m or h, such as 250ms or 2s, and no more than a hundred years"});
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * scale));
}

}  // namespace farside
