// units.h — sizes and durations as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace farside {

/// Reads "4096", "64K", "1.5G", "1GiB" (powers of 1024). Throws UsageError naming `what` ("--cache") otherwise.
[[nodiscard]] std::uint64_t parse_bytes(std::string_view text, std::string_view what);

/// Writes "1.5 GiB"; exact multiples carry no fraction.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// Reads "250ms", "2s", "1m". Throws UsageError naming `what` otherwise.
[[nodiscard]] std::chrono::milliseconds parse_duration(std::string_view text, std::string_view what);

}  // namespace farside
