// Collective operations that cannot complete: a member died, or is stopped for longer than the deadline.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <vector>

#include <gtest/gtest.h>

#include "farside/comm/collectives.h"

#include "tests/comm/seat.h"

namespace farside::test {
namespace {

using comm::Collectives;

// A death ends every wait, and the error names who died.
TEST(Collectives, NameWhoDied) {
  Survivors survivors;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    std::vector<double> values(3000, 1.0);
    Collectives group(seat.comm);
    ASSERT_TRUE(group.all_reduce(*seat.channel, std::span(values), seat.deadline()).done());
    me.barrier();
    if (me.index() == 1) ::raise(SIGKILL);
    const comm::Status status = group.all_reduce(*seat.channel, std::span(values), seat.deadline());
    EXPECT_EQ(status.outcome, Outcome::peer_lost);
    EXPECT_EQ(status.lost, 1u);
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(2), 0);
}

// What a call that timed out was to send is still sent, and is what it was then: its memory may be another's by now.
TEST(Collectives, SendNothingFromFreedMemoryAfterATimeOut) {
  Shared<std::atomic<unsigned>> step;
  const auto reach = [&](unsigned wanted) { ASSERT_TRUE(eventually([&] { return *step >= wanted; })); };
  constexpr std::uint64_t kLarge = 8U << 20U;  // more than a stopped host takes in
  Fleet fleet(2, [&](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("memory", kLarge);
    Collectives group(seat.comm);
    std::vector<std::uint64_t> mine(4000, me.index() + 1);
    std::vector<std::uint64_t> all(8000);
    ASSERT_TRUE(group.all_gather(*seat.channel, std::span(mine), std::span(all), seat.deadline()).done());
    me.barrier();
    if (me.index() == 0) {
      *step = 1;
      reach(2);
      const std::vector<std::byte> large(kLarge);  // the service thread is at this when the piece is left to it
      (void)seat.comm.put(*seat.channel, memory->of(1).span(0, kLarge),
                          LocalSpan(const_cast<std::byte*>(large.data()), kLarge));
      const Deadline soon = seat.team.fabric().in(std::chrono::milliseconds(200));
      EXPECT_EQ(group.all_gather(*seat.channel, std::span(mine), std::span(all), soon).outcome, Outcome::timed_out);
      std::ranges::fill(mine, 99);
      *step = 3;
      reach(4);
      EXPECT_TRUE(seat.comm.wait(*seat.channel, seat.comm.issued(), seat.deadline()).done());
    } else {
      reach(4);
      ASSERT_TRUE(group.all_gather(*seat.channel, std::span(mine), std::span(all), seat.deadline()).done());
      EXPECT_EQ(std::ranges::count(all, 1U), 4000);
    }
    me.barrier();
  });
  reach(1);
  fleet.stop(1);
  *step = 2;
  reach(3);
  fleet.signal(1, SIGCONT);
  *step = 4;
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
