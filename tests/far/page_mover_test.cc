// The pager's protocol, step by step and without its threads: what happens to a page while it leaves.
#include "far/pager/page_mover.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

#include "tests/far/page_mover_fixture.h"

namespace farside::test {
namespace {

using namespace far;  // NOLINT(google-build-using-namespace)

template <Rule PagerRules::*rule>
class Without : public PageMoverTest {
 protected:
  Without() : PageMoverTest(broken()) {}

 private:
  static PagerRules broken() {
    PagerRules rules;
    rules.*rule = false;
    return rules;
  }
};

using ProtectionRules = Without<&PagerRules::protects_before_copying>;
using SecondLookRules = Without<&PagerRules::drops_only_what_stayed>;
using StoringRules = Without<&PagerRules::stores_before_dropping>;
using ErasingRules = Without<&PagerRules::erases_what_turned_zero>;

// What was written is read again after the page was away.
#define A_PAGE_COMES_BACK \
  word(5) = 1;            \
  evict_all();            \
  const std::uint64_t found = word(5)

TEST_F(PageMoverTest, APageComesBackAsItWas) {
  A_PAGE_COMES_BACK;
  EXPECT_EQ(found, 1U);
  EXPECT_EQ(mover.counts().fetched_pages, 1U);
}
TEST_F(StoringRules, IsCaught) {
  A_PAGE_COMES_BACK;
  EXPECT_NE(found, 1U);
}

// Of a first stay only the store is told: it came from nowhere.
TEST_F(PageMoverTest, AnObserverLearnsWhatBecameOfAPage) {
  word(5) = 1;
  evict_all();
  EXPECT_EQ(tally.at(PageEvent::stored, 5), 1U);
  EXPECT_EQ(tally.at(PageEvent::written, 5), 0U);
  EXPECT_EQ(word(5), 1U);
  EXPECT_EQ(tally.at(PageEvent::fetched, 5), 1U);
  EXPECT_EQ(tally.at(PageEvent::written, 5), 0U);
  word(5) = 2;
  word(5) = 3;
  EXPECT_EQ(tally.at(PageEvent::written, 5), 1U);
  evict_all();
  word(5) = 4;  // fetched to be written to
  EXPECT_EQ(tally.at(PageEvent::stored, 5), 2U);
  EXPECT_EQ(tally.at(PageEvent::fetched, 5), 2U);
  EXPECT_EQ(tally.at(PageEvent::written, 5), 2U);
}

// A write that falls between the copy of a page and its end here.
#define A_WRITE_DURING_EVICTION       \
  word(5) = 1;                        \
  cellar.during_store = [&] {         \
    word(5) = 2;                      \
    cellar.during_store = [] {};      \
  };                                  \
  (void)mover.evict(64, evictor);     \
  const std::uint64_t here = word(5); \
  evict_all();                        \
  const std::uint64_t later = word(5)

TEST_F(PageMoverTest, AWriteDuringEvictionIsKept) {
  A_WRITE_DURING_EVICTION;
  EXPECT_EQ(here, 2U);
  EXPECT_EQ(later, 2U);
  EXPECT_EQ(mover.counts().cancelled_evictions, 1U);
}
TEST_F(ProtectionRules, IsCaught) {
  A_WRITE_DURING_EVICTION;
  EXPECT_TRUE(here != 2 || later != 2);
}
TEST_F(SecondLookRules, IsCaught) {
  A_WRITE_DURING_EVICTION;
  EXPECT_TRUE(here != 2 || later != 2);
}

// A page whose bytes the space has, and that is zeros again, is kept nowhere, and is zeros.
#define A_PAGE_TURNS_ZERO \
  word(5) = 1;            \
  evict_all();            \
  word(5) = 0;            \
  evict_all();            \
  const std::uint64_t found = word(5)

TEST_F(PageMoverTest, APageThatTurnsZeroIsErased) {
  A_PAGE_TURNS_ZERO;
  EXPECT_EQ(found, 0U);
  EXPECT_EQ(mover.counts().stored_pages, 1U);
  EXPECT_EQ(cellar.bytes.at(5 * kPageBytes), std::byte{});
}
TEST_F(ErasingRules, IsCaught) {
  A_PAGE_TURNS_ZERO;
  EXPECT_NE(found, 0U);
}

// A page that is only read goes without being written anywhere, however often it comes.
TEST_F(PageMoverTest, CleanPagesAreNeverStored) {
  word(5) = 1;
  for (int i = 0; i < 5; ++i) {
    evict_all();
    EXPECT_EQ(word(5), 1U);
  }
  EXPECT_EQ(mover.counts().stored_pages, 1U);
  EXPECT_EQ(mover.counts().dropped_clean_pages, 4U);
}

// The first write to a page that came by a read is noticed, and the page stored again.
TEST_F(PageMoverTest, AWriteToACleanPageMakesItDirty) {
  word(5) = 1;
  evict_all();
  EXPECT_EQ(word(5), 1U);
  word(5) = 2;
  evict_all();
  EXPECT_EQ(word(5), 2U);
  EXPECT_EQ(mover.counts().protection_faults, 1U);
}

// What is discarded is zeros, also in the middle of an eviction, and stays so.
TEST_F(PageMoverTest, ADiscardDuringEvictionWins) {
  word(5) = 1;
  word(6) = 1;
  cellar.during_store = [&] {
    mover.discard(5, 1, faults);
    cellar.during_store = [] {};
  };
  (void)mover.evict(64, evictor);
  EXPECT_EQ(word(5), 0U);
  EXPECT_EQ(word(6), 1U);
  evict_all();
  EXPECT_EQ(word(5), 0U);
}

// A loop over more than there is room for, some of it written to each time: that stays, after a while, but for one
// visit to the space in a term.
TEST_F(PageMoverTest, WhatIsUpdatedTakesThePlaceOfWhatIsRead) {
  constexpr PageNumber kWritten = kBudget / 4;
  constexpr PageNumber kRead = kBudget / 4 * 7;
  const auto round = [&] {
    for (PageNumber page = 0; page < kRead; ++page) {
      if (frames.used() > kBudget - 4) (void)mover.evict(4, evictor);
      if (page < kWritten) word(page) = page + 1;
      EXPECT_EQ(word(kWritten + page), 1U);
    }
  };
  for (PageNumber page = 0; page < kWritten + kRead; ++page) {  // all is in the space
    if (frames.used() > kBudget - 4) (void)mover.evict(4, evictor);
    word(page) = 1;
  }
  for (int i = 0; i < 20; ++i) round();
  const std::uint64_t before = mover.counts().stored_pages;
  constexpr int kRounds = 8;
  for (int i = 0; i < kRounds; ++i) round();
  EXPECT_LT(mover.counts().stored_pages - before, kRounds * kWritten * 3 / 8);
}

// Pinned pages stay whatever happens, updated ones until nothing else is left, and of those that came just now only the
// done leave.
TEST_F(PageMoverTest, HintsSayWhoLeavesFirst) {
  for (PageNumber page = 0; page < 8; ++page) word(page) = 1;
  mover.advise(7, 1, Hint::done);
  EXPECT_EQ(mover.advise(1, 1, Hint::pinned), 1);
  mover.advise(2, 1, Hint::updated);
  const auto faults_on = [&](PageNumber page) {
    const std::uint64_t before = mover.counts().faults;
    EXPECT_EQ(word(page), 1U);
    return mover.counts().faults != before;
  };
  EXPECT_EQ(mover.evict(64, evictor).pages, 1U);
  EXPECT_TRUE(faults_on(7));
  while (frames.used() > 2) ASSERT_EQ(mover.evict(1, evictor).pages, 1U);
  EXPECT_FALSE(faults_on(1));
  EXPECT_FALSE(faults_on(2));
  evict_all();
  EXPECT_FALSE(faults_on(1));
}

TEST_F(PageMoverTest, AHintForOthersLeavesPinnedPagesPinned) {
  EXPECT_EQ(mover.advise(1, 1, Hint::pinned), 1);
  EXPECT_EQ(mover.advise(0, 3, Hint::done, PageMover::Pinned::stay), 0);
  EXPECT_EQ(mover.not_pinned(0, 3), 2U);
  EXPECT_EQ(mover.advise(0, 3, Hint::done), -1);
  EXPECT_EQ(mover.not_pinned(0, 3), 3U);
}

// Of a loop over twice as much as there is room for, a good part is found here: least-recently-used would find nothing.
TEST_F(PageMoverTest, ALoopOverMoreThanTheBudgetKeepsAPart) {
  constexpr PageNumber kLoop = 2 * kBudget;
  std::uint64_t rounds = 0;
  const auto walk = [&] {
    for (PageNumber page = 0; page < kLoop; ++page) {
      while (frames.used() + 8 > kBudget) ASSERT_NE(mover.evict(4, evictor).pages, 0U);
      ASSERT_EQ(word(page), rounds);
      word(page) = rounds + 1;
    }
    ++rounds;
  };
  for (int i = 0; i < 6; ++i) walk();
  const std::uint64_t before = mover.counts().faults;
  for (int i = 0; i < 4; ++i) walk();
  const double missed = static_cast<double>(mover.counts().faults - before) / (4.0 * kLoop);
  EXPECT_LT(missed, 0.8);
}

// What was wanted again and again, and is no longer, makes room for what is wanted now.
TEST_F(PageMoverTest, WhatWasWantedOnceDoesNotStayForEver) {
  const auto touch = [&](PageNumber page) {
    while (frames.used() + 8 > kBudget) ASSERT_NE(mover.evict(4, evictor).pages, 0U);
    word(page) = word(page) + 1;
  };
  for (int round = 0; round < 8; ++round) {
    for (PageNumber page = 0; page < kBudget * 5 / 4; ++page) touch(page);
  }
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same every time
  const std::uint64_t before = mover.counts().faults;
  constexpr std::uint64_t kTouches = 8000;
  for (std::uint64_t i = 0; i < kTouches; ++i) touch(400 + random() % (kBudget * 6 / 7));
  EXPECT_LT(mover.counts().faults - before, kTouches / 6);
}

class WithReadAhead : public PageMoverTest {
 protected:
  WithReadAhead() : PageMoverTest({}, 32) {}
};

// Going through in order costs one fault for many pages, whether they were never touched or come from the space.
TEST_F(WithReadAhead, AWalkInOrderFaultsSeldom) {
  const auto make_room = [&] {
    while (frames.used() + 96 > kBudget) ASSERT_NE(mover.evict(64, evictor).pages, 0U);
  };
  for (PageNumber page = 0; page < kPagesOfArena; ++page) {
    make_room();
    word(page) = page + 1;
  }
  const PagerCounts written = mover.counts();
  EXPECT_LT(written.faults * 8, kPagesOfArena);
  for (PageNumber page = 0; page < kPagesOfArena; ++page) {
    make_room();
    ASSERT_EQ(word(page), page + 1);
  }
  const PagerCounts read = mover.counts();
  EXPECT_LT((read.faults - written.faults) * 8, read.fetched_pages);
  EXPECT_GT(read.ahead_hits * 2, read.ahead_pages);
  EXPECT_LE(read.stored_pages, kPagesOfArena);
}

// The same of the first writes to pages that came unchanged. Where they follow no order no other page becomes dirty.
TEST_F(WithReadAhead, AWalkOfWritesFaultsSeldom) {
  constexpr PageNumber kWalk = 160;
  const auto come_unchanged = [&](std::uint64_t value) {
    evict_all();
    for (PageNumber page = 0; page < kWalk; ++page) ASSERT_EQ(word(page), value);
  };
  for (PageNumber page = 0; page < kWalk; ++page) word(page) = 1;
  come_unchanged(1);
  constexpr std::array<PageNumber, 8> kNoOrder{100, 7, 51, 130, 20, 90, 3, 77};
  for (const PageNumber page : kNoOrder) word(page) = 1;
  come_unchanged(1);
  EXPECT_EQ(mover.counts().protection_faults, kNoOrder.size());
  EXPECT_EQ(mover.counts().stored_pages, kWalk + kNoOrder.size());
  for (PageNumber page = 0; page < kWalk; ++page) word(page) = 2;
  EXPECT_LT((mover.counts().protection_faults - kNoOrder.size()) * 8, kWalk);
  come_unchanged(2);
}

}  // namespace
}  // namespace farside::test
