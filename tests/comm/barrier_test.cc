// What a split-phase barrier promises, between real processes.
#include "farside/comm/barrier.h"

#include <algorithm>
#include <csignal>
#include <vector>

#include <gtest/gtest.h>

#include "farside/comm/collectives.h"

#include "tests/comm/seat.h"
#include "tests/support/interposed_channel.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using comm::Barrier;

// For any number of members: what each wrote at every other one before it began is there when the barrier has ended.
class BarrierSizes : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Members, BarrierSizes, testing::Values(1, 2, 3, 5, 8, 9));

TEST_P(BarrierSizes, EndsWhenAllHaveComeAndShowsWhatTheyWrote) {
  const std::uint64_t kRounds = reduced(200);
  Fleet fleet(GetParam(), [&](Member& me) {
    Seat seat(me);
    Barrier barrier(seat.comm);
    const auto memory = seat.team.allocate("words", 8 * std::uint64_t{me.count()});
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      for (team::Rank rank = 0; rank < me.count(); ++rank) {
        ASSERT_EQ(seat.channel->store(memory->of(rank).word<ControlWord>(8 * me.index()), round, seat.deadline()),
                  Outcome::done);
      }
      ASSERT_TRUE(barrier.pass(*seat.channel, seat.deadline()).done());
      for (team::Rank rank = 0; rank < me.count(); ++rank) {
        ASSERT_GE(memory->local().word<ControlWord>(8 * rank).load(), round) << "of rank " << rank;
      }
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

// Several are under way at once, each ends only when all have begun it, and they end in order.
TEST(Barrier, HasEightUnderWay) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    Barrier barrier(seat.comm);
    const auto begin_eight = [&] {
      for (std::uint64_t number = 1; number <= 8; ++number) {
        const Barrier::Begun begun = barrier.begin(*seat.channel, seat.deadline());
        ASSERT_TRUE(begun.status.done());
        ASSERT_EQ(begun.number, number);
      }
    };
    if (me.index() == 0) {
      me.barrier();  // the others have begun all
      begin_eight();
    } else {
      begin_eight();
      for (std::uint64_t number = 1; number <= 8; ++number) EXPECT_FALSE(barrier.ended(number));
      const Barrier::Begun ninth = barrier.begin(*seat.channel, seat.team.fabric().in(std::chrono::milliseconds(1)));
      EXPECT_EQ(ninth.status.outcome, Outcome::timed_out);
      me.barrier();
    }
    ASSERT_TRUE(barrier.wait(*seat.channel, 8, seat.deadline()).done());
    for (std::uint64_t number = 1; number <= 8; ++number) EXPECT_TRUE(barrier.ended(number));
    EXPECT_TRUE(barrier.pass(*seat.channel, seat.deadline()).done());
    seat.leave(me);
  });
  fleet.expect_success();
}

// Groups have barriers of their own: a barrier at which no rank arrives does not keep the other waiting.
TEST(Barrier, IsOfAGroup) {
  Fleet fleet(5, [](Member& me) {
    Seat seat(me);
    const bool odd = me.index() % 2 == 1;
    Barrier barrier(seat.comm, odd ? std::vector<team::Rank>{1, 3} : std::vector<team::Rank>{0, 2, 4});
    if (odd) me.barrier();
    for (int round = 0; round < 20; ++round) EXPECT_TRUE(barrier.pass(*seat.channel, seat.deadline()).done());
    if (!odd) me.barrier();
    seat.leave(me);
  });
  fleet.expect_success();
}

// No other rank helps: on memory that all map, the last rank to arrive ends the barrier for all ranks while the others
// are stopped.
TEST(Barrier, EndsWhileAllOthersAreStopped) {
  if (!all_map_all()) GTEST_SKIP() << "elsewhere service threads take part";
  constexpr unsigned kMembers = 4;
  Shared<std::atomic<unsigned>> begun;
  Shared<std::atomic<bool>> all_stopped;
  Fleet fleet(kMembers, [&](Member& me) {
    Seat seat(me);
    Barrier barrier(seat.comm);
    ASSERT_TRUE(me.index() != 0 || eventually([&] { return all_stopped->load(); }));
    const Barrier::Begun mine = barrier.begin(*seat.channel, seat.deadline());
    ASSERT_TRUE(mine.status.done());
    ++*begun;
    ASSERT_TRUE(barrier.wait(*seat.channel, mine.number, seat.deadline()).done());
    if (me.index() == 0) *all_stopped = false;  // it has ended here: the test lets the others go on
    seat.leave(me);
  });
  ASSERT_TRUE(eventually([&] { return *begun == kMembers - 1; }));
  for (unsigned index = 1; index < kMembers; ++index) fleet.stop(index);
  *all_stopped = true;
  EXPECT_TRUE(eventually([&] { return !all_stopped->load(); }));
  for (unsigned index = 1; index < kMembers; ++index) fleet.signal(index, SIGCONT);
  fleet.expect_success();
}

/// Ends a meeting of three as `meet` does, the last to arrive between its releases of ranks 0 and 1 until rank 1 has
/// left. Rank 0 has ended by then.
template <class Meet>
void leave_while_the_last_one_releases(Meet meet) {
  if (!all_map_all()) GTEST_SKIP() << "elsewhere a service thread releases";
  Shared<std::atomic<unsigned>> begun;
  Shared<std::atomic<bool>> has_ended;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    InterposedChannel channel(seat.comm.open_channel());
    if (me.index() != 2) {
      meet(seat, *seat.channel, [&] { ++*begun; });
      if (me.index() == 1) *has_ended = true;
      return;  // its process ends
    }
    channel.before_each_signal([&](PeerId to, Deadline) {
      if (to != 1) return Outcome::done;
      EXPECT_TRUE(eventually([&] { return has_ended->load(); }));
      EXPECT_TRUE(eventually([&] { return !seat.team.alive(0) && !seat.team.alive(1); }));
      return Outcome::done;
    });
    meet(seat, channel, [&] { EXPECT_TRUE(eventually([&] { return *begun == 2; })); });
  });
  fleet.expect_success();
}

// A member that a meeting has released may be gone before another one is released. It is no loss to that one.
TEST(Barrier, EndsForThoseThatWaitWhileOthersLeave) {
  leave_while_the_last_one_releases([](Seat& seat, Channel& channel, const auto& before_the_last) {
    Barrier barrier(seat.comm);
    const bool is_last = seat.team.rank() == 2;
    if (is_last) before_the_last();
    const Barrier::Begun begun = barrier.begin(channel, seat.deadline());
    EXPECT_TRUE(begun.status.done());
    if (!is_last) before_the_last();
    EXPECT_TRUE(barrier.wait(channel, begun.number, seat.deadline()).done());
  });
}

// And it has the result, too.
TEST(Barrier, GivesItsResultToThoseThatWaitWhileOthersLeave) {
  leave_while_the_last_one_releases([](Seat& seat, Channel& channel, const auto& before_the_last) {
    comm::Collectives group(seat.comm);
    const bool is_last = seat.team.rank() == 2;
    std::uint64_t sum = seat.team.rank() + 1;
    if (is_last) before_the_last();
    comm::Collectives::Pending pending = group.begin_all_reduce(channel, std::span(&sum, 1), seat.deadline());
    if (!is_last) before_the_last();
    EXPECT_TRUE(pending.end(channel, seat.deadline()).done());
    EXPECT_EQ(sum, 6U);
  });
}

// A connection that breaks while members are released is no failure of the meeting: all have arrived.
TEST(Barrier, IsNotStoppedByAConnectionThatBreaks) {
  if (!all_map_all()) GTEST_SKIP() << "elsewhere a service thread releases";
  Shared<std::atomic<bool>> first_has_begun;
  Fleet fleet(2, [&](Member& me) {
    Seat seat(me);
    Barrier barrier(seat.comm);
    if (me.index() == 0) {
      const Barrier::Begun begun = barrier.begin(*seat.channel, seat.deadline());
      *first_has_begun = true;
      EXPECT_TRUE(barrier.wait(*seat.channel, begun.number, seat.deadline()).done());
    } else {
      EXPECT_TRUE(eventually([&] { return first_has_begun->load(); }));
      InterposedChannel channel(seat.comm.open_channel());
      unsigned breaks = 2;
      channel.before_each_signal([&](PeerId to, Deadline) {
        if (to != 0 || breaks == 0) return Outcome::done;
        --breaks;
        return Outcome::link_lost;
      });
      EXPECT_TRUE(barrier.pass(channel, seat.deadline()).done());
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A death ends every wait, and the error names who died.
TEST(Barrier, NamesWhoDied) {
  Survivors survivors;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    Barrier barrier(seat.comm);
    ASSERT_TRUE(barrier.pass(*seat.channel, seat.deadline()).done());
    me.barrier();
    if (me.index() == 1) ::raise(SIGKILL);
    const comm::Status status = barrier.pass(*seat.channel, seat.deadline());
    EXPECT_EQ(status.outcome, Outcome::peer_lost);
    EXPECT_EQ(status.lost, 1u);
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(2), 0);
}

// A member's write to a rank outside the group is lost with that rank. The member is told; the group goes on.
TEST(Barrier, IsNotStoppedByTheLossOfARankOutside) {
  Shared<std::atomic<unsigned>> step;
  const auto reach = [&](unsigned wanted) { ASSERT_TRUE(eventually([&] { return *step >= wanted; })); };
  Survivors survivors;
  Fleet fleet(4, [&](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("memory", 64);
    const std::vector<team::Rank> members =
        me.index() == 3 ? std::vector<team::Rank>{3} : std::vector<team::Rank>{0, 1, 2};
    Barrier barrier(seat.comm, members);
    comm::Collectives group(seat.comm, members);
    std::uint64_t value = 1;
    const auto write_outside = [&] {
      return seat.channel->write(memory->of(3).span(0, 8), LocalSpan(value), seat.deadline());
    };
    if (me.index() == 0) {
      ASSERT_EQ(write_outside(), Outcome::done);
      ASSERT_EQ(seat.channel->flush(3, seat.deadline()), Outcome::done);
    }
    me.barrier();
    if (me.index() == 3) return (void)::pause();  // until it is killed
    const auto lose_rank_3 = [&] {
      *step = 1;
      reach(2);
      EXPECT_EQ(write_outside(), Outcome::done);  // on its way to a process that is stopped
      *step = 3;
      EXPECT_TRUE(eventually([&] { return !seat.team.alive(3); }));
    };
    if (me.index() == 0) lose_rank_3();
    const comm::Status first = barrier.pass(*seat.channel, seat.deadline());
    if (me.index() != 0) {
      EXPECT_TRUE(first.done());
    } else {
      EXPECT_EQ(first.outcome, Outcome::peer_lost);
      EXPECT_EQ(first.lost, 3U);
      EXPECT_TRUE(first.outside);
    }
    for (unsigned more = 0; more < 20; ++more) {
      ASSERT_TRUE(barrier.pass(*seat.channel, seat.deadline()).done());
    }
    for (const std::size_t elements : {1U, 200'000U}) {  // one meeting, and several rounds
      std::vector<double> values(elements, me.index() + 1.0);
      ASSERT_TRUE(group.all_reduce(*seat.channel, std::span(values), seat.deadline()).done());
      EXPECT_EQ(values.back(), 6.0);
    }
    survivors.leave_together(3);
  });
  reach(1);
  fleet.stop(3);
  *step = 2;
  reach(3);
  fleet.signal(3, SIGKILL);
  for (const unsigned index : {0U, 1U, 2U}) EXPECT_EQ(fleet.wait(index), 0);
}

/// Two ranks form a group and a third is outside. The first says how its `flush_all` goes, and tries the group.
template <class Try>
void meet_beside_a_third(Outcome flush_all, Try try_group) {
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    const bool is_outside = me.index() == 2;
    const std::vector<team::Rank> members = is_outside ? std::vector<team::Rank>{2} : std::vector<team::Rank>{0, 1};
    Barrier barrier(seat.comm, members);
    comm::Collectives group(seat.comm, members);
    InterposedChannel channel(seat.comm.open_channel());
    std::vector<Duration> given;
    if (me.index() == 0) {
      channel.before_each_flush_all([&](Deadline deadline) {
        given.push_back(deadline.at - seat.team.fabric().now());
        return flush_all;
      });
    }
    if (!is_outside) try_group(me, seat, channel, barrier, group);
    EXPECT_TRUE(std::ranges::all_of(given, [](Duration each) { return each <= std::chrono::seconds(1); }));
    const auto is_long = [](Duration each) { return each > std::chrono::milliseconds(50); };
    EXPECT_LE(std::ranges::count_if(given, is_long), 2) << "the first of the barrier, the first of the collectives";
    EXPECT_EQ(given.empty(), me.index() != 0);
    me.barrier();
  });
  fleet.expect_success();
}

// A rank outside that does not answer, or whose connection breaks, costs a member of the group a bounded time. The
// member that has written to it is told, and that its barrier has ended; the group goes on.
class BarrierOutside : public testing::TestWithParam<Outcome> {};
INSTANTIATE_TEST_SUITE_P(Fails, BarrierOutside, testing::Values(Outcome::timed_out, Outcome::link_lost));

TEST_P(BarrierOutside, DoesNotStopTheGroup) {
  if (!all_map_all()) GTEST_SKIP() << "elsewhere the service thread arrives, by a channel of its own";
  meet_beside_a_third(GetParam(), [&](Member& me, Seat& seat, Channel& channel, Barrier& barrier, auto& group) {
    for (unsigned round = 0; round < 10; ++round) {
      const Barrier::Begun begun = barrier.begin(channel, seat.deadline());
      EXPECT_TRUE(begun.status.done());
      const comm::Status status = barrier.wait(*seat.channel, begun.number, seat.deadline());
      EXPECT_TRUE(barrier.ended(begun.number));
      EXPECT_EQ(status.outcome, me.index() == 0 ? GetParam() : Outcome::done);
      EXPECT_EQ(status.outside, me.index() == 0);
    }
    std::uint64_t sum = me.index() + 1;
    auto pending = group.begin_all_reduce(channel, std::span(&sum, 1), seat.deadline());
    EXPECT_EQ(pending.end(*seat.channel, seat.deadline()).outside, me.index() == 0);
    EXPECT_EQ(sum, 3U);
  });
}

}  // namespace
}  // namespace farside::test
