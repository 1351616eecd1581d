#include "node/board.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <limits>

#include "base/assert.h"

namespace farside::node {

namespace node_socket = cache::node_socket;

Board::Board(std::uint64_t slot_count)
    : file_(make_memfd("farside board", node_socket::board_bytes(slot_count))),
      mapping_(file_, node_socket::board_bytes(slot_count), Mapping::Access::read_write) {}

Time Board::last_used(std::uint64_t slot) const {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  return {static_cast<std::int64_t>(std::min(word(node_socket::kStampsOffset + 8 * slot), kMax))};
}

node_socket::HitStripe Board::counts() const {
  constexpr std::uint64_t kWords = sizeof(node_socket::HitStripe) / 8;
  std::array<std::uint64_t, kWords> sums{};
  for (std::uint64_t stripe = 0; stripe < node_socket::kStripes; ++stripe) {
    for (std::uint64_t i = 0; i < kWords; ++i) sums.at(i) += word((stripe * kWords + i) * 8);
  }
  return std::bit_cast<node_socket::HitStripe>(sums);
}

std::uint64_t Board::word(std::uint64_t offset) const {
  assert_that(offset + sizeof(std::uint64_t) <= mapping_.bytes(), "the word lies on the board");
  auto* const word = reinterpret_cast<std::uint64_t*>(mapping_.base() + offset);
  return std::atomic_ref(*word).load(std::memory_order_relaxed);
}

}  // namespace farside::node
