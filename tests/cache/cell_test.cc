#include "cache/cell.h"

#include <gtest/gtest.h>

namespace farside::cache {
namespace {

TEST(Cell, SurvivesTheWordItTravelsIn) {
  const Cell cell{Cell::State::loaded, Cell::kNonceMask, 0xffff, 0xffffff};
  const Cell back = Cell::from_word(cell.word());
  EXPECT_EQ(back.state, cell.state);
  EXPECT_EQ(back.nonce, cell.nonce);
  EXPECT_EQ(back.rank, cell.rank);
  EXPECT_EQ(back.slot, cell.slot);
}

TEST(Cell, OfZeroedMemoryIsInvalid) { EXPECT_EQ(Cell::from_word(0).state, Cell::State::invalid); }

// The word may come from a peer's broken memory: no bit pattern is undefined behaviour.
TEST(Cell, TakesAnUnknownStateForInvalid) { EXPECT_EQ(Cell::from_word(~0ULL).state, Cell::State::invalid); }

// A node that comes late with a COMPARE_SWAP must not meet the word that it read, though the place is the same again.
TEST(Cell, NeverRepeatsItsWordWhenItComesBackToAPlace) {
  const Cell first = Cell{}.loaded_at({3, 7});
  const Cell again = first.invalidated().loading_at({3, 7}).loaded_at({3, 7});
  EXPECT_NE(first.word(), again.word());
}

}  // namespace
}  // namespace farside::cache
