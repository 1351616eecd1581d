// Pages that are to leave for a space that has no room, or not for all of them: they stay, nothing is lost, and no
// thread waits that need not.
#include <gtest/gtest.h>

#include "tests/far/page_mover_fixture.h"

namespace farside::test {
namespace {

using far::PageNumber;

class FullSpace : public PageMoverTest {
 protected:
  static constexpr PageNumber kPages = 20;

  void write(PageNumber pages, std::uint64_t value) {
    for (PageNumber page = 0; page < pages; ++page) word(page) = value;
  }
  // All are here, and hold 2; of the first ones the space has older bytes, and so a place.
  void write_all(PageNumber stored) {
    write(stored, 1);
    evict_all();
    write(kPages, 2);
  }
  void expect_in_all(std::uint64_t value) {
    for (PageNumber page = 0; page < kPages; ++page) EXPECT_EQ(word(page), value) << page;
  }
};

TEST_F(FullSpace, WhatCannotBeStoredStays) {
  write_all(0);
  cellar.stores_end_with = far::Status::full;
  EXPECT_EQ(mover.evict(64, evictor).status, far::Status::full);
  EXPECT_EQ(frames.used(), kPages);
  write(kPages, 3);
  cellar.stores_end_with = far::Status::done;
  evict_all();
  EXPECT_EQ(frames.used(), 0U);
  expect_in_all(3);
}

// While there is no room for more, what has a place in the space leaves: a fault need not wait for the rest.
TEST_F(FullSpace, WhatHasAPlaceLeaves) {
  write_all(10);
  cellar.has_room_for = [](PageNumber page) { return page < 10; };
  for (const std::uint64_t left : {10U, 0U}) {
    EXPECT_EQ(mover.evict(64, evictor).pages, left);
    EXPECT_EQ(frames.used(), 10U);
  }
  cellar.has_room_for = [](PageNumber) { return true; };
  evict_all();
  EXPECT_EQ(frames.used(), 0U);
  expect_in_all(2);
}

// A page whose place is not its own any more, since a relative has it too, holds up no other page.
TEST_F(FullSpace, WhatLostItsPlaceStaysAlone) {
  write_all(kPages);
  cellar.has_room_for = [](PageNumber page) { return page % 2 == 0; };
  evict_all();
  EXPECT_EQ(frames.used(), 10U);
  expect_in_all(2);
}

// Nor does a page that was written to while it was refused.
TEST_F(FullSpace, AWriteToARefusedPageHoldsUpNoOther) {
  write_all(10);
  cellar.has_room_for = [this](PageNumber page) {
    if (page >= 10) word(page) = 3;
    return page < 10;
  };
  evict_all();
  EXPECT_EQ(frames.used(), 10U);
  write(10, 4);
  evict_all();
  EXPECT_EQ(frames.used(), 10U);
  for (PageNumber page = 0; page < kPages; ++page) EXPECT_EQ(word(page), page < 10 ? 4U : 3U) << page;
}

}  // namespace
}  // namespace farside::test
