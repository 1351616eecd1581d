// distribution.h — which rank owns which page in the beginning.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "farside/base/rounding.h"
#include "farside/gas/page.h"

namespace farside::gas {

/// Returns the owner of `page`, of `pages` pages on `ranks` ranks. The same function at all ranks.
using Distribution = std::function<team::Rank(PageId page, std::uint64_t pages, team::Rank ranks)>;

/// The ranks in turn.
[[nodiscard]] inline Distribution cyclic() {
  return [](PageId page, std::uint64_t /*pages*/, team::Rank ranks) { return static_cast<team::Rank>(page % ranks); };
}

/// Each rank has pages that follow each other, as even as can be.
[[nodiscard]] inline Distribution blocked() {
  return [](PageId page, std::uint64_t pages, team::Rank ranks) {
    const std::uint64_t each = div_ceil(pages, ranks);
    return static_cast<team::Rank>(page / each);
  };
}

/// The ranks in turn, each with so many pages that follow each other.
[[nodiscard]] inline Distribution block_cyclic(std::uint64_t pages_at_once) {
  return [each = std::max<std::uint64_t>(pages_at_once, 1)](PageId page, std::uint64_t /*pages*/, team::Rank ranks) {
    return static_cast<team::Rank>(page / each % ranks);
  };
}

}  // namespace farside::gas
