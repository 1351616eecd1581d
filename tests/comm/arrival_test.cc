// What an arrival counter promises, between real processes: an epoch ends with all its copies there, and no other's.
#include <atomic>
#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/comm/arrival_counter.h"

#include "comm/protocol/arrivals.h"
#include "tests/comm/seat.h"
#include "tests/support/interposed_channel.h"
#include "tests/support/reduced.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using comm::ArrivalCounter;

using namespace std::chrono_literals;

// All ranks send to all ranks, with nothing but counters between the epochs: each rank finds the values of the epoch
// that it awaited, although fast senders are ahead. What is read is overwritten four epochs later at the soonest.
TEST(ArrivalCounter, EndsAnEpochWithAllItsCopiesAndNoOthers) {
  const std::uint64_t kEpochs = reduced(200);
  Fleet fleet(4, [&](Member& me) {
    Seat seat(me);
    ArrivalCounter counter(seat.comm);
    const auto memory = seat.team.allocate("values", 8 * std::uint64_t{me.count()} * comm::Arrivals::kOpen);
    const auto place = [&](std::uint64_t epoch, team::Rank from) {
      return 8 * (epoch % comm::Arrivals::kOpen * me.count() + from);
    };
    const std::vector<team::Rank> all{0, 1, 2, 3};
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      std::uint64_t value = epoch + 1;
      for (const team::Rank rank : all) {
        const auto arrival = counter.at(*seat.channel, rank, epoch, seat.deadline());
        ASSERT_TRUE(arrival.status.done());
        (void)seat.comm.put(*seat.channel, memory->of(rank).span(place(epoch, me.index()), 8), LocalSpan(value),
                            arrival.notice);
      }
      ASSERT_TRUE(seat.comm.wait(*seat.channel, seat.comm.issued(), seat.deadline()).done());  // `value` is used
      ASSERT_TRUE(counter.wait(*seat.channel, epoch, me.count(), all, seat.deadline()).done());
      for (const team::Rank rank : all) {
        ASSERT_EQ(memory->local().word<ControlWord>(place(epoch, rank)).load(), value) << "of rank " << rank;
      }
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

// Rank 1 has sent in two epochs before rank 2 sends in the first one. Whether rank 0 then takes the first one for
// ended.
bool mixes_epochs(const comm::ArrivalRules& rules) {
  Shared<std::atomic<bool>> mixed;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    comm::Arrivals arrivals(seat.team, "arrivals", rules);
    const auto arrive = [&](std::uint64_t epoch) {
      ASSERT_EQ(arrivals.await_open(*seat.channel, 0, epoch, seat.deadline()), Outcome::done);
      ASSERT_TRUE(seat.channel->add_signal(arrivals.word(0, epoch), 1, seat.deadline()).done());
    };
    if (me.index() == 1) {
      arrive(0);
      arrive(1);
    }
    me.barrier();
    if (me.index() == 0) {
      const Deadline soon = rules.names_epochs ? seat.team.fabric().in(1ms) : seat.deadline();
      *mixed = arrivals.wait(*seat.channel, 0, 2, {}, soon) == Outcome::done;
    }
    me.barrier();
    if (me.index() == 2) {
      arrive(0);
      arrive(1);
    }
    if (me.index() == 0 && !*mixed) {
      EXPECT_EQ(arrivals.wait(*seat.channel, 0, 2, {}, seat.deadline()), Outcome::done);
      EXPECT_EQ(arrivals.wait(*seat.channel, 1, 2, {}, seat.deadline()), Outcome::done);
    }
    seat.leave(me);
  });
  fleet.expect_success();
  return *mixed;
}

TEST(ArrivalCounter, KeepsEpochsApart) { EXPECT_FALSE(mixes_epochs({})); }

// One word for all epochs does not.
TEST(ArrivalCounterRules, WouldMixEpochsThatItDoesNotName) { EXPECT_TRUE(mixes_epochs({.names_epochs = false})); }

// A sender that is four epochs ahead waits for the receiver.
TEST(ArrivalCounter, HasSendersWaitForAnEpochThatIsNotCountedYet) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    ArrivalCounter counter(seat.comm);
    const std::vector<team::Rank> sender{1};
    if (me.index() == 1) {
      for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
        const auto arrival = counter.at(*seat.channel, 0, epoch, seat.deadline());
        ASSERT_TRUE(arrival.status.done());
        (void)seat.comm.notify(*seat.channel, arrival.notice);
      }
      EXPECT_EQ(counter.at(*seat.channel, 0, 4, seat.team.fabric().in(5ms)).status.outcome, Outcome::timed_out);
      me.barrier();
      EXPECT_TRUE(counter.at(*seat.channel, 0, 4, seat.deadline()).status.done());
    } else {
      me.barrier();
      EXPECT_TRUE(counter.wait(*seat.channel, 0, 1, sender, seat.deadline()).done());
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

// What arrives beyond what was awaited is an error of the program, and said to be.
TEST(ArrivalCounter, RefusesWhatIsSuperfluous) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    ArrivalCounter counter(seat.comm);
    const std::vector<team::Rank> sender{1};
    const auto send = [&](std::uint64_t epoch) {
      const auto arrival = counter.at(*seat.channel, 0, epoch, seat.deadline());
      ASSERT_TRUE(
          seat.comm.wait(*seat.channel, seat.comm.notify(*seat.channel, arrival.notice), seat.deadline()).done());
    };
    if (me.index() == 1) {
      send(0);
      send(0);
    }
    me.barrier();
    if (me.index() == 0) {
      EXPECT_THROW((void)counter.wait(*seat.channel, 0, 1, sender, seat.deadline()), UsageError);
      for (const std::uint64_t epoch : {1, 5}) {
        EXPECT_TRUE(counter.wait(*seat.channel, epoch, 0, sender, seat.deadline()).done());
        EXPECT_THROW((void)counter.wait(*seat.channel, epoch, 0, sender, seat.deadline()), UsageError);
      }
    }
    me.barrier();
    if (me.index() == 1) {
      EXPECT_THROW((void)counter.at(*seat.channel, 0, 5, seat.deadline()), UsageError);
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST(ArrivalCounter, IsAwaitedAgainWhereItsEndStayedUnknown) {
  Fleet fleet(1, [](Member& me) {
    Seat seat(me);
    comm::Arrivals arrivals(seat.team, "arrivals");
    InterposedChannel channel(seat.comm.open_channel());
    channel.end_each_with(Outcome::timed_out);
    EXPECT_EQ(arrivals.wait(channel, 0, 0, {}, seat.deadline()), Outcome::timed_out);
    channel.end_each_with(Outcome::done);
    EXPECT_EQ(arrivals.wait(channel, 0, 0, {}, seat.deadline()), Outcome::done);
    EXPECT_THROW((void)arrivals.wait(channel, 0, 0, {}, seat.deadline()), UsageError);
    seat.leave(me);
  });
  fleet.expect_success();
}

// The death of a sender ends the wait, and is named.
TEST(ArrivalCounter, NamesWhoDied) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    ArrivalCounter counter(seat.comm);
    if (me.index() == 1) ::pause();  // until the test has ended
    if (me.index() == 2) ::raise(SIGKILL);
    if (me.index() == 0) {
      const std::vector<team::Rank> senders{1, 2};
      const comm::Status status = counter.wait(*seat.channel, 0, 2, senders, seat.deadline());
      EXPECT_EQ(status.outcome, Outcome::peer_lost);
      EXPECT_EQ(status.lost, 2u);
    }
  });
  EXPECT_EQ(fleet.wait(0), 0);
}

}  // namespace
}  // namespace farside::test
