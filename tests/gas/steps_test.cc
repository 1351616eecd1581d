// Step by step: what a get, a put and a move cost, and what comes of one that begins in the middle of another.
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"
#include "farside/gas/pages.h"

#include "tests/support/in_process_team.h"
#include "tests/support/interposed_team.h"

namespace farside::test {
namespace {

using gas::PageAccess;
using gas::PageId;
using team::Rank;

constexpr Rank kRanks = 4;
constexpr std::uint64_t kPageBytes = 64;
constexpr PageId kPage = 1;  // its home is rank 1, and its owner too, in the beginning

// Four ranks, each with one thread; all act in the test's own thread, one at a time.
class Steps : public testing::Test {
 protected:
  Steps() {
    for (Rank rank = 0; rank < kRanks; ++rank) heard_[rank] = std::make_unique<InterposedTeam>(*teams_[rank]);
    on_all_ranks(kRanks, [this](Rank rank) {
      const gas::PagesOptions options{.pages = 8, .page_bytes = kPageBytes, .lease = std::chrono::milliseconds(500)};
      pages_[rank] = std::make_unique<gas::Pages>(*heard_[rank], "pages", options);
    });
    for (Rank rank = 0; rank < kRanks; ++rank) access_[rank].emplace(*pages_[rank]);
  }

  [[nodiscard]] Deadline in(std::chrono::milliseconds time) { return teams_[0]->fabric().in(time); }
  [[nodiscard]] Deadline soon() { return in(std::chrono::seconds(30)); }

  std::uint64_t get(Rank rank, PageId page = kPage) {
    std::uint64_t value = ~std::uint64_t{0};
    EXPECT_TRUE(access_[rank]->get({page, 8, LocalSpan(value)}, soon()).done());
    return value;
  }
  void put(Rank rank, std::uint64_t value, PageId page = kPage) {
    EXPECT_TRUE(access_[rank]->put({page, 8, LocalSpan(value)}, soon()).done());
  }
  void own(Rank rank, PageId page = kPage) { EXPECT_TRUE(access_[rank]->own(std::array{page}, soon()).status.done()); }

  /// From here on no rank answers when `rank` asks whether what it has put is there.
  void leave_in_doubt(Rank rank) {
    heard_[rank]->before_each_flush([](PeerId /*peer*/, Deadline /*until*/) { return Outcome::timed_out; });
  }
  void end_doubts(Rank rank) { heard_[rank]->before_each_flush({}); }
  /// Accesses of `rank`, until there are no more holds.
  [[nodiscard]] std::vector<PageAccess> take_all_holds(Rank rank) {
    std::vector<PageAccess> all;
    EXPECT_THROW(
        {
          for (;;) all.emplace_back(*pages_[rank]);
        },
        Error);
    return all;
  }

  struct Operations {
    std::size_t all = 0;
    std::size_t of_bytes = 0;  // not of a word
  };
  /// What `act` has `rank` post.
  template <class Act>
  Operations posted(Rank rank, Act act) {
    Operations count;
    heard_[rank]->before_each([&count](const Operation& operation) {
      ++count.all;
      count.of_bytes += operation.bytes == 8 ? 0 : 1;
    });
    act();
    heard_[rank]->before_each({});
    return count;
  }
  /// Has `act` called just before `rank` READs the whole page.
  template <class Act>
  void before_copy(Rank rank, Act act) {
    heard_[rank]->before_each([this, rank, act](const Operation& operation) {
      if (operation.kind != Operation::Kind::read || operation.bytes != kPageBytes) return;
      heard_[rank]->before_each({});
      act();
    });
  }

  std::vector<std::unique_ptr<InProcessTeam>> teams_ = make_teams(kRanks);
  std::array<std::unique_ptr<InterposedTeam>, kRanks> heard_;
  std::array<std::unique_ptr<gas::Pages>, kRanks> pages_;
  std::array<std::optional<PageAccess>, kRanks> access_;
};

TEST_F(Steps, AGetOfAKnownPageIsOneOperation) {
  std::array<std::byte, 32> bytes{};
  const auto get_bytes = [&] {
    EXPECT_TRUE(access_[0]->get({kPage, 0, LocalSpan(bytes.data(), bytes.size())}, soon()).done());
  };
  get_bytes();
  EXPECT_EQ(posted(0, get_bytes).all, 1U);
}

TEST_F(Steps, APutToAKnownPageIsOneOperation) {
  put(0, 1);
  EXPECT_EQ(posted(0, [this] { put(0, 2); }).all, 1U);
}

// Pages that are brought later are not asked for again with each round.
TEST_F(Steps, OwningTwiceAsManyPagesIsTwiceAsManyOperations) {
  static constexpr std::uint64_t kFew = 4096;
  std::array<std::unique_ptr<gas::Pages>, kRanks> many;
  on_all_ranks(kRanks, [&](Rank rank) {
    const gas::PagesOptions options{.pages = 3 * kFew,
                                    .page_bytes = kPageBytes,
                                    .first_owner = [](PageId /*page*/) { return kRanks - 1; },
                                    .slots = 3 * kFew};
    many[rank] = std::make_unique<gas::Pages>(*heard_[rank], "many", options);
  });
  PageAccess access(*many[0]);
  const auto own_from = [&](PageId first, std::uint64_t count) {
    std::vector<PageId> pages(count);
    std::iota(pages.begin(), pages.end(), first);
    return posted(0,
                  [&] {
                    const gas::Moved moved = access.own(pages, soon());
                    EXPECT_TRUE(moved.status.done());
                    EXPECT_EQ(moved.pages, count);
                  })
        .all;
  };
  const std::size_t of_few = own_from(0, kFew);
  const std::size_t of_twice = own_from(kFew, 2 * kFew);
  EXPECT_LE(of_twice, of_few * 21 / 10);
  EXPECT_LE(of_few, 10 * kFew);
}

TEST_F(Steps, PagesThatLieOneAfterAnotherAreOneOperation) {
  std::array<std::unique_ptr<gas::Pages>, kRanks> blocks;
  on_all_ranks(kRanks, [&](Rank rank) {
    const gas::PagesOptions options{
        .pages = 8, .page_bytes = kPageBytes, .first_owner = [](PageId page) { return page / 2; }};
    blocks[rank] = std::make_unique<gas::Pages>(*heard_[rank], "blocks", options);
  });
  std::vector<PageAccess> access;
  for (const auto& pages : blocks) access.emplace_back(*pages);

  std::array<std::uint64_t, 8 * kPageBytes / 8> words{};
  const auto put_all = [&](std::uint64_t first) {
    std::iota(words.begin(), words.end(), first);
    access[3].begin_put({0, 0, LocalSpan(words)});
    EXPECT_TRUE(access[3].finish(soon()).done());
  };
  const auto get_all = [&] {
    words.fill(0);
    access[3].begin_get({0, 0, LocalSpan(words)});
    EXPECT_TRUE(access[3].finish(soon()).done());
    return words;
  };
  const auto as_put = [](std::uint64_t first) {
    std::array<std::uint64_t, 8 * kPageBytes / 8> expected{};
    std::iota(expected.begin(), expected.end(), first);
    return expected;
  };
  put_all(1);
  EXPECT_EQ(get_all(), as_put(1));
  EXPECT_EQ(posted(3, [&] { put_all(2); }).all, kRanks);
  EXPECT_EQ(posted(3, [&] { EXPECT_EQ(get_all(), as_put(2)); }).all, kRanks);

  EXPECT_TRUE(access[0].own(std::array{PageId{3}}, soon()).status.done());
  EXPECT_EQ(get_all(), as_put(2));
  EXPECT_EQ(posted(3, [&] { put_all(3); }).all, kRanks + 1);
  EXPECT_EQ(get_all(), as_put(3));
}

// The one place that does not hold any more is asked for, and the others are not.
TEST_F(Steps, OfManyPartsTheMovedOneIsAskedForAlone) {
  std::array<std::uint64_t, 3> found{};
  std::vector<gas::PagePart> parts;
  for (const PageId page : {1U, 2U, 3U}) {
    put(3, 10 + page, page);
    parts.push_back({page, 8, LocalSpan(found[page - 1])});
  }
  const auto get_all = [&] {
    found.fill(0);
    EXPECT_TRUE(access_[0]->get(parts, soon()).done());
  };
  get_all();
  EXPECT_EQ(posted(0, get_all).all, 3U);
  own(1, 2);
  EXPECT_EQ(posted(0, get_all).all, 6U);  // two, register (2), look, and the third
  EXPECT_EQ(found, (std::array<std::uint64_t, 3>{11, 12, 13}));
}

TEST_F(Steps, AMovedPageCostsOneRetry) {
  put(1, 5);
  EXPECT_EQ(get(0), 5U);
  own(2);
  put(2, 6);
  EXPECT_EQ(posted(0, [this] { EXPECT_EQ(get(0), 6U); }).all, 5U);  // a get at the old place, register (2), look, get
  EXPECT_EQ(posted(0, [this] { EXPECT_EQ(get(0), 6U); }).all, 1U);
}

// Of the ranks that do not share a page, a move knows nothing.
TEST_F(Steps, AMoveTellsTheSharersAlone) {
  const std::size_t alone = posted(0, [this] { own(0, 5); }).all;
  get(2, 6);
  get(3, 6);
  const std::size_t with_two = posted(0, [this] { own(0, 6); }).all;
  get(3, 7);
  const std::size_t with_one = posted(0, [this] { own(0, 7); }).all;
  EXPECT_GT(with_one, alone);
  EXPECT_EQ(with_two - with_one, 3U);  // its counter, how many holds, its hold
}

TEST_F(Steps, GetsGoOnWhileAPageMoves) {
  put(1, 5);
  EXPECT_EQ(get(3), 5U);
  before_copy(2, [this] {
    EXPECT_EQ(get(0), 5U);  // has never heard of the page
    EXPECT_EQ(get(1), 5U);  // its owner
    EXPECT_EQ(get(3), 5U);  // knew its place
  });
  own(2);
  EXPECT_EQ(get(3), 5U);
}

TEST_F(Steps, PutsWaitWhileAPageMoves) {
  put(3, 5);
  before_copy(2, [this] {
    for (const Rank rank : {0U, 1U, 3U}) {
      std::uint64_t value = 9;
      const comm::Status status = access_[rank]->put({kPage, 8, LocalSpan(value)}, in(std::chrono::milliseconds(2)));
      EXPECT_EQ(status.outcome, Outcome::timed_out);
    }
  });
  own(2);
  EXPECT_EQ(get(3), 5U);
  put(3, 6);
  EXPECT_EQ(get(2), 6U);
}

// Rank 2 stops before it copies the page, for longer than the lease. Rank 0 breaks its lock; then rank 2 goes on.
TEST_F(Steps, AMoverThatWasTakenForDeadHarmsNoOtherRank) {
  before_copy(2, [this] {
    put(0, 7);
    own(3);
    put(0, 8);
  });
  own(2);  // fails, and then is tried once more
  EXPECT_EQ(get(0), 8U);
  EXPECT_EQ(get(3), 8U);
  const auto places = access_[1]->locate(std::array{kPage}, soon());
  ASSERT_TRUE(places.done());
  EXPECT_EQ(places.value.front().owner, 2U);
}

// A rank gets to know the page just when all ranks that knew it have been told of the move.
TEST_F(Steps, WhoLearnsOfAPageDuringItsMoveIsToldOfTheNext) {
  before_copy(2, [this] { EXPECT_EQ(get(0), 0U); });
  own(2);
  EXPECT_EQ(get(0), 0U);
  own(3);
  put(3, 4);
  EXPECT_EQ(get(0), 4U);
}

TEST_F(Steps, APinnedPageStays) {
  auto pinned = access_[1]->pin(kPage, soon());
  ASSERT_TRUE(pinned.pin.has_value());
  const gas::Moved moved = access_[0]->own(std::array{kPage}, in(std::chrono::milliseconds(30)));
  EXPECT_EQ(moved.status.outcome, Outcome::timed_out);
  EXPECT_EQ(moved.pages, 0U);
  put(2, 3);  // others use it meanwhile
  EXPECT_EQ(static_cast<unsigned>(pinned.pin->bytes()[8]), 3U);
  pinned.pin.reset();
  own(0);
  EXPECT_EQ(get(3), 3U);
}

// A put that was given up takes one of the 256 holds of its rank.
TEST_F(Steps, APutInDoubtWithoutAHoldLeftSaysSoAndGoesOnWhenItsOwnerAnswers) {
  static constexpr PageId kAnother = 2;
  std::uint64_t value = 5;
  for (const PageId page : {kPage, kAnother}) put(0, 1, page);
  leave_in_doubt(0);
  EXPECT_EQ(access_[0]->put({kPage, 8, LocalSpan(value)}, in({})).outcome, Outcome::timed_out);
  const std::vector<PageAccess> all = take_all_holds(0);
  EXPECT_GT(all.size(), 250U);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(
        [&] {
          (void)access_[0]->put({kAnother, 8, LocalSpan(value)}, in({}));
        },
        testing::ThrowsMessage<Error>(testing::HasSubstr("a put that was given up keeps its hold")));
  }
  for (const PageId page : {kPage, kAnother}) {
    EXPECT_EQ(access_[3]->own(std::array{page}, in(std::chrono::milliseconds(50))).status.outcome, Outcome::timed_out);
  }

  end_doubts(0);
  put(0, 6, kAnother);
  put(0, 7);
  const PageAccess with_a_hold_again(*pages_[0]);
  own(3);
  own(3, kAnother);
  EXPECT_EQ(get(1), 7U);
  EXPECT_EQ(get(1, kAnother), 6U);
}

// As any other put that is still in doubt then: its rank counts as stopped, and the page can be had.
TEST_F(Steps, APutInDoubtWithoutAHoldLeftIsAbandonedWithItsAccess) {
  std::uint64_t value = 5;
  put(0, 1);
  leave_in_doubt(0);
  const std::vector<PageAccess> all = take_all_holds(0);
  EXPECT_THROW((void)access_[0]->put({kPage, 8, LocalSpan(value)}, in({})), Error);
  access_[0].reset();
  own(3);
}

}  // namespace
}  // namespace farside::test
