#include "node/board.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "farside/cache/node_socket.h"

namespace farside::node {
namespace {

namespace node_socket = cache::node_socket;

class BoardOfTwoSlots : public ::testing::Test {
 protected:
  BoardOfTwoSlots() : board_(2), program_(board_.file(), board_.bytes(), Mapping::Access::read_write) {}

  // What a program would store through its own mapping.
  void write(std::uint64_t offset, std::uint64_t value) {
    *reinterpret_cast<std::uint64_t*>(program_.base() + offset) = value;
  }

  Board board_;
  Mapping program_;
};

TEST_F(BoardOfTwoSlots, ShowsTheStampsOfPrograms) {
  write(node_socket::kStampsOffset + 8, 77);
  EXPECT_EQ(board_.last_used(0), Time{0});
  EXPECT_EQ(board_.last_used(1), Time{77});
}

// A program may write anything; a time that no clock shows must not become one before the start.
TEST_F(BoardOfTwoSlots, ReadsANonsenseStampAsTheLatestTime) {
  write(node_socket::kStampsOffset, ~0ULL);
  EXPECT_EQ(board_.last_used(0).nanoseconds, std::numeric_limits<std::int64_t>::max());
}

TEST_F(BoardOfTwoSlots, SumsTheStripes) {
  write(0, 3);
  write(8, 300);
  write((node_socket::kStripes - 1) * sizeof(node_socket::HitStripe), 4);
  write((node_socket::kStripes - 1) * sizeof(node_socket::HitStripe) + 8, 400);
  write(offsetof(node_socket::HitStripe, fresh), 5);
  write(sizeof(node_socket::HitStripe) + offsetof(node_socket::HitStripe, mappings), 2);
  const node_socket::HitStripe counts = board_.counts();
  EXPECT_EQ(counts.hits, 7U);
  EXPECT_EQ(counts.bytes, 700U);
  EXPECT_EQ(counts.fresh, 5U);
  EXPECT_EQ(counts.mappings, 2U);
  EXPECT_EQ(counts.direct, 0U);
}

}  // namespace
}  // namespace farside::node
