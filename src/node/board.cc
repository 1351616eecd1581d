#include "node/board.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>

#include "farside/cache/host_door.h"

namespace farside {

Board::Board(std::uint64_t slot_count)
    : file_(make_memfd("farside board", door::board_bytes(slot_count))),
      mapping_(file_, door::board_bytes(slot_count), Mapping::Access::read_write) {}

Time Board::last_used(std::uint64_t slot) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return {static_cast<std::int64_t>(std::min(word(door::kStampsOffset + 8 * slot), kMost))};
}

Board::Hits Board::hits() const {
  Hits sum;
  for (std::uint64_t stripe = 0; stripe < door::kStripes; ++stripe) {
    const std::uint64_t at = stripe * sizeof(door::HitStripe);
    sum.count += word(at + offsetof(door::HitStripe, hits));
    sum.bytes += word(at + offsetof(door::HitStripe, bytes));
  }
  return sum;
}

std::uint64_t Board::word(std::uint64_t offset) const {
  auto* const word = reinterpret_cast<std::uint64_t*>(mapping_.base() + offset);
  return std::atomic_ref(*word).load(std::memory_order_relaxed);
}

}  // namespace farside
