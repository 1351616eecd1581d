#include "node/board.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "farside/cache/host_door.h"

namespace farside {
namespace {

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
  write(door::kStampsOffset + 8, 77);
  EXPECT_EQ(board_.last_used(0), Time{0});
  EXPECT_EQ(board_.last_used(1), Time{77});
}

// A program may write anything; a time that no clock shows must not become one before the start.
TEST_F(BoardOfTwoSlots, ReadsANonsenseStampAsTheLatestTime) {
  write(door::kStampsOffset, ~0ULL);
  EXPECT_EQ(board_.last_used(0).nanoseconds, std::numeric_limits<std::int64_t>::max());
}

TEST_F(BoardOfTwoSlots, SumsTheStripes) {
  write(0, 3);
  write(8, 300);
  write((door::kStripes - 1) * sizeof(door::HitStripe), 4);
  write((door::kStripes - 1) * sizeof(door::HitStripe) + 8, 400);
  write(offsetof(door::HitStripe, fresh), 5);
  write(sizeof(door::HitStripe) + offsetof(door::HitStripe, mappings), 2);
  const door::HitStripe counts = board_.counts();
  EXPECT_EQ(counts.hits, 7U);
  EXPECT_EQ(counts.bytes, 700U);
  EXPECT_EQ(counts.fresh, 5U);
  EXPECT_EQ(counts.mappings, 2U);
  EXPECT_EQ(counts.direct, 0U);
}

}  // namespace
}  // namespace farside
