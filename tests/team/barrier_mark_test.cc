// Which barrier a word says that a rank has reached, across losses, returns and the wrapping of numbers.
#include "team/barrier_mark.h"

#include <gtest/gtest.h>

namespace farside::team {
namespace {

TEST(BarrierMark, TravelsInAWord) {
  const BarrierMark mark{65535, BarrierMark::kCountMask, 7};
  EXPECT_EQ(BarrierMark::from_word(mark.word()).word(), mark.word());
}

TEST(BarrierMark, AnEmptyWordHasReachedNothing) {
  const BarrierMark first = BarrierMark{}.next(0, false);
  EXPECT_FALSE(BarrierMark{}.has_arrived_at(first));
  EXPECT_TRUE(first.has_arrived_at(first));
}

TEST(BarrierMark, IsTheSameUntilItIsPassed) {
  const BarrierMark first = BarrierMark{}.next(0, false);
  EXPECT_EQ(first.next(0, false).word(), first.word());
  EXPECT_FALSE(first.has_arrived_at(first.next(0, true)));
  EXPECT_TRUE(first.next(0, true).has_arrived_at(first));
}

// Who has passed a barrier may hear of a loss and be in the next one before another has looked.
TEST(BarrierMark, TellsOfTheEpochBefore) {
  const BarrierMark second = BarrierMark{}.next(4, false).next(4, true);
  const BarrierMark after = second.next(5, true);
  EXPECT_TRUE(after.has_arrived_at(second));
  EXPECT_TRUE(after.is_of_later_epoch_than(second));
  EXPECT_FALSE(after.has_arrived_at(second.next(4, true)));  // which it never called
  EXPECT_FALSE(second.has_arrived_at(after));
}

// A new life has reached nothing that the old one had.
TEST(BarrierMark, ForgetsWhatLiesTwoEpochsBack) {
  const BarrierMark first = BarrierMark{}.next(4, false);
  EXPECT_FALSE(first.next(6, true).has_arrived_at(first));
  EXPECT_TRUE(first.next(6, true).is_of_later_epoch_than(first));
}

TEST(BarrierMark, WrapsAround) {
  const BarrierMark last{65535, BarrierMark::kCountMask, 0};
  EXPECT_TRUE(last.next(65535, true).has_arrived_at(last));
  EXPECT_FALSE(last.has_arrived_at(last.next(65535, true)));
  EXPECT_TRUE(last.next(0, true).is_of_later_epoch_than(last));
  EXPECT_TRUE(last.next(0, true).has_arrived_at(last));
}

}  // namespace
}  // namespace farside::team
