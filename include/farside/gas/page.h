// page.h — how pages that move are named. They are numbered from 0; a page's number never changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "farside/comm/comm.h"

namespace farside::gas {

using PageId = std::uint64_t;

/// Lifetime of a lock or a hold that its rank does not change: others that wait for it evict the rank then.
inline constexpr std::chrono::milliseconds kDefaultLease{2000};
/// Timeout of each call of a global array.
inline constexpr std::chrono::milliseconds kDefaultCallTimeout{60'000};

/// Bits of a page's version, which differs after each move until it wraps around.
inline constexpr unsigned kPageVersionBits = 24;

/// Bytes from `offset` of a page on, and where they come from or go to.
struct PagePart {
  PageId page;
  std::uint64_t offset;
  LocalSpan local;
};

/// How a move ended.
struct [[nodiscard]] Moved {
  comm::Status status{};
  std::uint64_t pages = 0;  ///< that have come here
  bool full = false;        ///< this rank has no room for the others
  /// With their owner or home, such as the one that `ended` names. All others were brought.
  std::vector<PageId> lost{};
};

}  // namespace farside::gas
