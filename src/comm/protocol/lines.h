// lines.h — words of different writers lie in lines of their own, so that none slows another down.
//
// Stands alone: four protocols lay out words with it.
#pragma once

#include <cstdint>

#include "farside/base/rounding.h"

namespace farside::comm {

inline constexpr std::uint64_t kLineBytes = 64;

[[nodiscard]] inline std::uint64_t in_lines(std::uint64_t bytes) { return round_up(bytes, kLineBytes); }

}  // namespace farside::comm
