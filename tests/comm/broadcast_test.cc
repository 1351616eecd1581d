// What a broadcast promises, between real processes.
#include "farside/comm/broadcast.h"

#include <csignal>

#include <gtest/gtest.h>

#include "tests/comm/seat.h"

namespace farside::test {
namespace {

constexpr std::uint64_t kData = 64;

Outcome await_flag(Seat& seat, const SymmetricRegion& memory, std::uint64_t value) {
  const auto is_there = [value](std::uint64_t seen) { return seen == value; };
  return seat.channel->wait_until(memory.local(), memory.local().word<ControlWord>(0), is_there, seat.patience());
}

std::vector<std::byte> bytes_at(const Region& memory, std::uint64_t bytes) {
  std::vector<std::byte> found(bytes);
  memory.copy_out(kData, found);
  return found;
}

class BroadcastSizes : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, BroadcastSizes, testing::Values(0, 8, 30'001, 700'001));

// Rank 3 sends what rank 1 has. Rank 2 wants every second one and finds nothing of the others.
TEST_P(BroadcastSizes, ReachAllWhoWantThem) {
  Fleet fleet(4, [](Member& me) {
    Seat seat(me);
    Broadcast broadcast(seat.comm);
    const std::uint64_t bytes = GetParam();
    const auto source = seat.team.allocate("source", kData + bytes);
    const auto memory = seat.team.allocate("memory", kData + bytes);
    for (std::uint64_t round = 1; round <= 4; ++round) {
      const std::vector<std::byte> data(bytes, static_cast<std::byte>(round));
      const bool discards = me.index() == 2 && round % 2 == 1;
      broadcast.discard(discards);
      if (me.index() == 1) source->local().copy_in(kData, data);
      me.barrier();
      if (me.index() == 3) {
        const Request sent = broadcast.send(*seat.channel, *memory, kData, source->of(1).span(kData, bytes),
                                            {.offset = 0, .value = round});
        EXPECT_TRUE(seat.comm.wait(*seat.channel, sent, seat.patience()).done());
      }
      if (!discards) {
        ASSERT_EQ(await_flag(seat, *memory, round), Outcome::done);
      }
      me.barrier();
      const std::vector<std::byte> before(bytes, static_cast<std::byte>(round - 1));
      EXPECT_EQ(bytes_at(memory->local(), bytes), discards ? before : data);
      EXPECT_EQ(memory->local().word<ControlWord>(0).load(), discards ? round - 1 : round);
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

// A dead member is named; the living have the data.
TEST(Broadcast, NamesWhoDiedAndReachesTheOthers) {
  Survivors survivors;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    Broadcast broadcast(seat.comm);
    const auto memory = seat.team.allocate("memory", kData + 8);
    if (me.index() == 1) ::raise(SIGKILL);
    if (me.index() == 0) {
      std::uint64_t number = 0;
      Ended ended;
      do {  // until the death is known
        const Request sent = broadcast.send(*seat.channel, *memory, kData, memory->of(0).span(kData, 8),
                                            {.offset = 0, .value = ++number});
        ended = seat.comm.wait(*seat.channel, sent, seat.patience());
      } while (ended.done());
      EXPECT_EQ(ended.outcome, Outcome::peer_lost);
      EXPECT_EQ(ended.lost, 1u);
      EXPECT_EQ(seat.channel->store(memory->of(2).word<ControlWord>(8), number, seat.patience()), Outcome::done);
      EXPECT_EQ(seat.channel->flush(2, seat.patience()), Outcome::done);
    } else {
      const auto last = memory->local().word<ControlWord>(8);
      const auto is_set = [](std::uint64_t value) { return value != 0; };
      ASSERT_EQ(seat.channel->wait_until(memory->local(), last, is_set, seat.patience()), Outcome::done);
      EXPECT_EQ(memory->local().word<ControlWord>(0).load(), last.load());
    }
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(2), 0);
}

}  // namespace
}  // namespace farside::test
