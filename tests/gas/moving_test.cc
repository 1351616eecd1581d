// What a global array promises while its pages move, between real processes.
#include <algorithm>
#include <csignal>
#include <new>
#include <thread>
#include <vector>

#include <unistd.h>

#include "tests/gas/place.h"
#include "tests/support/interposed_team.h"

namespace farside::test {
namespace {

using team::Rank;

using Array = gas::GlobalArray<std::uint64_t>;

// Each rank owns each page in turn; nothing is lost, and all ranks find it.
TEST(Moving, KeepsWhatIsInThePages) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    Array array(seat.comm, 100, small_pages());
    if (me.index() == 0) {
      for (std::uint64_t i = 0; i < 100; ++i) array[i] = i;
    }
    meet(seat);
    for (Rank owner : {2U, 0U, 1U}) {
      if (me.index() == owner) {
        const gas::Moved moved = array.own(0, 100);
        ASSERT_TRUE(moved.status.done());
        EXPECT_FALSE(moved.full);
      }
      meet(seat);
      const auto [status, located] = array.locality({0, 100});
      ASSERT_TRUE(status.done());
      for (const gas::LocatedRange& piece : located) EXPECT_EQ(piece.owner, owner);
      for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(array[i], i);
      meet(seat);
    }
  });
  fleet.expect_success();
}

// Three ranks add to the same elements while three ranks pull the pages to and fro.
TEST(Moving, LosesNoAdditionAndNoPut) {
  const std::uint64_t rounds = 3 * reduced(100);
  Fleet fleet(3, [rounds](Member& me) {
    Seat seat(me);
    Array array(seat.comm, 64, small_pages());
    std::thread adder([mine = array.another(), &me, rounds]() mutable {
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        ASSERT_TRUE(mine.fetch_add(round % 8, 1).status.done());
        const std::uint64_t own_element = 8 * (1 + round % 7) + me.index();
        mine[own_element] = round;
        ASSERT_EQ(mine[own_element], round);
      }
    });
    for (std::uint64_t round = 0; round < rounds / 3; ++round) {
      ASSERT_TRUE(array.own(8 * (round % 8), 8).status.done());
    }
    adder.join();
    meet(seat);
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < 8; ++i) sum += array[i];
    EXPECT_EQ(sum, 3 * rounds);
    meet(seat);
  });
  fleet.expect_success();
}

// The home and the owner are stopped: a get, a put and an own need no other rank.
TEST(Moving, NeedsNoHelpOfHomeAndOwner) {
  if (!all_map_all()) GTEST_SKIP() << "over emulated transports the target's service thread takes part";
  const Shared<std::atomic<unsigned>> stage;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    // Page 3 has its home at rank 0; its owner is rank 1.
    Array array(seat.comm, 64, small_pages([](auto, auto, auto) { return Rank{1}; }));
    meet(seat);
    if (me.index() != 2) {
      ++*stage;
      EXPECT_TRUE(eventually([&] { return *stage == 3; }));
    } else {
      EXPECT_TRUE(eventually([&] { return *stage == 100; }));  // the others have been stopped
      array[24] = 5;
      EXPECT_EQ(array[24], 5U);
      EXPECT_EQ(array.own(24, 8).pages, 1U);
      EXPECT_EQ(array.pin(24)->values[0], 5U);
      *stage = 3;
    }
    meet(seat);
    EXPECT_EQ(array[24], 5U);
    meet(seat);
  });
  EXPECT_TRUE(eventually([&] { return *stage == 2; }));
  fleet.stop(0);
  fleet.stop(1);
  *stage = 100;
  EXPECT_TRUE(eventually([&] { return *stage == 3; }));
  fleet.signal(0, SIGCONT);
  fleet.signal(1, SIGCONT);
  fleet.expect_success();
}

// A page that a program has pinned stays, and its owner's stores are in it when it goes.
TEST(Moving, WaitsForPinnedPages) {
  const Shared<std::atomic<bool>> pinned;
  Fleet fleet(2, [&](Member& me) {
    Seat seat(me);
    Array array(seat.comm, 16, small_pages());
    if (me.index() == 0) {
      std::optional<gas::PinnedRange<std::uint64_t>> here = array.pin(0);
      ASSERT_TRUE(here.has_value());
      *pinned = true;
      EXPECT_FALSE(eventually([&] { return !*pinned; }, std::chrono::seconds(1)));
      here->values[3] = 33;
      here.reset();
    } else {
      EXPECT_TRUE(eventually([&] { return pinned->load(); }));
      EXPECT_EQ(array.own(0, 8).pages, 1U);
      *pinned = false;
      EXPECT_EQ(array[3], 33U);
    }
    meet(seat);
  });
  fleet.expect_success();
}

// Room for pages is bounded; who has none left is told, and keeps what it has.
TEST(Moving, SaysWhenThereIsNoRoom) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    gas::GlobalArrayOptions options = small_pages();
    options.slots = 6;  // of 8 pages, it begins with 4
    Array array(seat.comm, 64, options);
    for (std::uint64_t i = me.index(); i < 64; i += 2) array[i] = i;
    meet(seat);
    if (me.index() == 0) {
      const gas::Moved moved = array.own(0, 64);
      EXPECT_TRUE(moved.status.done());
      EXPECT_TRUE(moved.full);
      EXPECT_EQ(moved.pages, 2U);
    }
    meet(seat);
    if (me.index() == 1) {  // the slots that were left are found
      EXPECT_EQ(array.own(0, 32).pages, 4U - 2U + 2U);
    }
    meet(seat);
    for (std::uint64_t i = 0; i < 64; ++i) EXPECT_EQ(array[i], i);
    meet(seat);
  });
  fleet.expect_success();
}

// A death loses the dead rank's pages, and nothing else; a rank that asks for one of these is told which rank died.
TEST(Deaths, LoseThePagesOfTheDeadAlone) {
  Survivors survivors;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    gas::GlobalArrayOptions options = small_pages();
    options.lease = std::chrono::milliseconds(200);
    Array array(seat.comm, 9 * 8, options);  // pages 0 to 8; of page p, rank p % 3 is home and owner
    meet(seat);
    std::uint64_t value = me.index();
    ASSERT_TRUE(array.put(8, std::span(&value, 1)).done());  // all are among the sharers of pages 1 and 4
    ASSERT_TRUE(array.get(32, std::span(&value, 1)).done());
    if (me.index() == 1) {
      ASSERT_TRUE(array.own(24, 8).status.done());  // page 3 goes with rank 1, its home does not
    }
    meet(seat);
    if (me.index() == 2) {
      ASSERT_TRUE(array.own(32, 8).status.done());  // page 4 does not, its home does
    }
    meet(seat);
    if (me.index() == 1) std::raise(SIGKILL);
    EXPECT_TRUE(eventually([&] { return !seat.team.alive(1); }));
    for (const std::uint64_t lost : {8U, 24U}) {
      const comm::Status status = array.get(lost, std::span(&value, 1));
      EXPECT_EQ(status.outcome, Outcome::peer_lost) << lost;
      EXPECT_EQ(status.lost, Rank{1}) << lost;
    }
    EXPECT_EQ(array.own(8, 8).status.lost, Rank{1});
    EXPECT_EQ(array.put(24, std::span<const std::uint64_t>(&value, 1)).lost, Rank{1});
    for (const std::uint64_t there : {0U, 16U, 48U, 64U}) {
      EXPECT_TRUE(array.get(there, std::span(&value, 1)).done()) << there;
      EXPECT_TRUE(array.put(there, std::span<const std::uint64_t>(&value, 1)).done()) << there;
    }
    if (me.index() == 0) {
      const gas::Moved moved = array.own(0, array.size());
      EXPECT_EQ(moved.status.outcome, Outcome::peer_lost);
      EXPECT_EQ(moved.status.lost, Rank{1});
      std::vector<gas::PageId> lost = moved.lost;
      std::ranges::sort(lost);
      EXPECT_EQ(lost, (std::vector<gas::PageId>{1, 3, 4, 7}));
      EXPECT_EQ(moved.pages, 3U);  // 2, 5 and 8; 0 and 6 are here
    }
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(1), SIGKILL);
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(2), 0);
}

// Each rank gets what it has used most, and is told why something was remote.
TEST(Moving, BalancesByUse) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    Array array(seat.comm, 48, small_pages());
    for (int round = 0; round < 10; ++round) {
      std::uint64_t value = 0;
      ASSERT_TRUE(array.get(((me.index() + 1) % 3) * 8, std::span(&value, 1)).done());
    }
    meet(seat);
    const std::string report = array.report();
    EXPECT_NE(report.find("owning saves"), std::string::npos);
    EXPECT_EQ(std::ranges::count(report, '\n'), 4);
    const gas::Moved moved = array.balance();
    ASSERT_TRUE(moved.status.done());
    EXPECT_EQ(moved.pages, 1U);
    meet(seat);
    const auto [status, located] = array.locality({0, 24});
    ASSERT_TRUE(status.done());
    for (Rank page = 0; page < 3; ++page) EXPECT_EQ(located[page].owner, (page + 2) % 3);
    meet(seat);
  });
  fleet.expect_success();
}

// A rank learns where its own pages are as all other ranks do, and still they do not count as remote.
TEST(Moving, CountsOwnPagesAsHere) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Array array(seat.comm, 16, small_pages());
    std::vector<std::uint64_t> all(16);
    ASSERT_TRUE(array.put(8 * me.index(), std::span<const std::uint64_t>(all).first(8)).done());
    ASSERT_TRUE(array.get(0, all).done());
    for (const gas::PageTraffic& page : array.pages().traffic()) {
      EXPECT_EQ(page.remote_operations, page.page == me.index() ? 0U : 1U);
      EXPECT_EQ(page.operations, page.page == me.index() ? 2U : 1U);
    }
    meet(seat);
  });
  fleet.expect_success();
}

// A rank that changes a page by atomics alone uses it as well.
TEST(Moving, BalancesByAtomicsToo) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    Array array(seat.comm, 16, small_pages());
    if (me.index() == 0) {
      ASSERT_TRUE(array.fetch_add(8, 1).status.done());
      EXPECT_EQ(array.compare_swap(9, 0, 1).value, 0U);
      const std::vector<gas::PageTraffic> traffic = array.pages().traffic();
      ASSERT_EQ(traffic.size(), 1U);
      EXPECT_EQ(traffic[0].remote_operations, 2U);
      EXPECT_EQ(traffic[0].remote_bytes, 16U);
    }
    meet(seat);
    EXPECT_EQ(array.balance().pages, me.index() == 0 ? 1U : 0U);
    meet(seat);
  });
  fleet.expect_success();
}

// With copies of remote pages, a get finds what was there at the last acquire.
TEST(ReadCache, IsFreshAfterAcquire) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    gas::GlobalArrayOptions options = small_pages();
    options.read_cache_bytes = 128;
    Array array(seat.comm, 64, options);
    if (me.index() == 0) {  // of page 1, which is remote: copied
      EXPECT_EQ(array[9], 0U);
    }
    meet(seat);
    if (me.index() == 1) array[9] = 4;
    meet(seat);
    if (me.index() == 0) {
      EXPECT_EQ(array[9], 0U);
      array.invalidate({0, 8});
      EXPECT_EQ(array[9], 0U);
      array.acquire();
      EXPECT_EQ(array[9], 4U);
      array[10] = 6;  // one's own puts are seen
      EXPECT_EQ(array[10], 6U);
      EXPECT_EQ(array[25], 0U);
      EXPECT_EQ(array[41], 0U);  // the third page does not fit
      EXPECT_EQ(array[9], 4U);
    }
    meet(seat);
  });
  fleet.expect_success();
}

// A copy outlives the rank that owned the page, up to the next acquire. From then on the page is lost.
TEST(ReadCache, ServesWhatWasAnEvictedRanksUntilTheNextAcquire) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    gas::GlobalArrayOptions options = small_pages();
    options.read_cache_bytes = 128;
    Array array(seat.comm, 64, options);
    if (me.index() == 1) array[9] = 4;
    meet(seat);
    std::uint64_t value = 0;
    if (me.index() == 0) {
      EXPECT_TRUE(array.get(9, std::span(&value, 1)).done());
    }
    meet(seat);
    if (me.index() == 1) ::pause();  // until it is evicted
    EXPECT_EQ(seat.team.evict(1, seat.deadline()), Outcome::done);
    EXPECT_TRUE(array.get(9, std::span(&value, 1)).done());
    EXPECT_EQ(value, 4U);
    EXPECT_EQ(array.get(25, std::span(&value, 1)).lost, Rank{1}) << "of that page there is no copy";
    array.acquire();
    for (const std::uint64_t element : {9U, 25U}) {
      const comm::Status status = array.get(element, std::span(&value, 1));
      EXPECT_EQ(status.outcome, Outcome::peer_lost) << element;
      EXPECT_EQ(status.lost, Rank{1}) << element;
    }
  });
  EXPECT_EQ(fleet.wait(0), 0);
}

// Memory is short just when a page is to be copied.
TEST(ReadCache, HasNoCopyOfWhatCouldNotBeRead) {
  Fleet fleet(2, [](Member& me) {
    FleetTeam team(me);
    InterposedTeam heard(team);
    comm::Comm comm(heard);
    const auto meet = [&] { EXPECT_EQ(heard.barrier(heard.fabric().in(std::chrono::seconds(60))), Outcome::done); };
    gas::GlobalArrayOptions options = small_pages();
    options.read_cache_bytes = 128;
    Array array(comm, 64, options);
    if (me.index() == 1) array[9] = 4;
    meet();
    if (me.index() == 0) {
      EXPECT_EQ(array[25], 0U);
      heard.before_each([](const Operation& operation) {
        if (operation.kind == Operation::Kind::read && operation.bytes == 64) throw std::bad_alloc();
      });
      EXPECT_THROW((void)static_cast<std::uint64_t>(array[9]), std::bad_alloc);
      heard.before_each({});
      EXPECT_EQ(array[9], 4U);
    }
    meet();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
