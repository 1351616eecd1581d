// rounding.h — integer division that rounds up.
//
// Needs nothing but libc, since the preload libraries include it.
#pragma once

#include <cstdint>

namespace farside {

/// Returns how many parts of `part` cover `whole`. Does not overflow. Requires `part` != 0.
[[nodiscard]] constexpr std::uint64_t div_ceil(std::uint64_t whole, std::uint64_t part) {
  return whole / part + (whole % part != 0 ? 1 : 0);
}

/// Returns the smallest multiple of `unit` that is at least `value`. Requires `unit` != 0, and that 64 bits hold it.
[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return div_ceil(value, unit) * unit;
}

static_assert(div_ceil(0, 4) == 0 && div_ceil(1, 4) == 1 && div_ceil(4, 4) == 1 && div_ceil(5, 4) == 2);
static_assert(div_ceil(UINT64_MAX, 2) == std::uint64_t{1} << 63U && round_up(UINT64_MAX - 4, 4) == UINT64_MAX - 3);

}  // namespace farside
