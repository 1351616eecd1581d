// What a broadcast promises, between real processes.
#include "farside/comm/broadcast.h"

#include <csignal>

#include <gtest/gtest.h>

#include "tests/comm/seat.h"

namespace farside::test {
namespace {

using comm::Broadcast;

constexpr std::uint64_t kData = 64;

Outcome await_flag(Seat& seat, const team::SymmetricRegion& memory, std::uint64_t value) {
  const auto is_there = [value](std::uint64_t seen) { return seen == value; };
  return seat.channel->wait_until(memory.local(), memory.local().word<ControlWord>(0), is_there, seat.deadline());
}

std::vector<std::byte> bytes_at(const Region& memory, std::uint64_t bytes) {
  std::vector<std::byte> found(bytes);
  memory.copy_out(kData, found);
  return found;
}

class BroadcastSizes : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, BroadcastSizes, testing::Values(0, 8, 30'001, 1'200'001));

// Rank 3 sends what rank 1 has. Rank 0, which passes on what is large where memory is not mapped, wants every second
// one and finds nothing of the others.
TEST_P(BroadcastSizes, ReachAllWhoWantThem) {
  Fleet fleet(7, [](Member& me) {
    Seat seat(me);
    const std::uint64_t bytes = GetParam();
    const auto source = seat.team.allocate("source", kData + bytes);
    const auto memory = seat.team.allocate("memory", kData + bytes);
    Broadcast broadcast(seat.comm, {}, {memory.get()});
    for (std::uint64_t round = 1; round <= 4; ++round) {
      const std::vector<std::byte> data(bytes, static_cast<std::byte>(round));
      const bool discards = me.index() == 0 && round % 2 == 1;
      broadcast.discard(discards);
      if (me.index() == 1) source->local().copy_in(kData, data);
      me.barrier();
      if (me.index() == 3) {
        const comm::Request sent = broadcast.send(*seat.channel, *memory, kData, source->of(1).span(kData, bytes),
                                                  {.offset = 0, .value = round});
        EXPECT_TRUE(seat.comm.wait(*seat.channel, sent, seat.deadline()).done());
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
      comm::Status status;
      do {  // until the death is known
        const comm::Request sent = broadcast.send(*seat.channel, *memory, kData, memory->of(0).span(kData, 8),
                                                  {.offset = 0, .value = ++number});
        status = seat.comm.wait(*seat.channel, sent, seat.deadline());
      } while (status.done());
      EXPECT_EQ(status.outcome, Outcome::peer_lost);
      EXPECT_EQ(status.lost, 1u);
      EXPECT_EQ(seat.channel->store(memory->of(2).word<ControlWord>(8), number, seat.deadline()), Outcome::done);
      EXPECT_EQ(seat.channel->flush(2, seat.deadline()), Outcome::done);
    } else {
      const auto last = memory->local().word<ControlWord>(8);
      const auto is_set = [](std::uint64_t value) { return value != 0; };
      ASSERT_EQ(seat.channel->wait_until(memory->local(), last, is_set, seat.deadline()), Outcome::done);
      EXPECT_EQ(memory->local().word<ControlWord>(0).load(), last.load());
    }
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(2), 0);
}

// Several ranks send at once what is passed on, each through trees that contain the others: no rank waits for itself.
TEST(Broadcast, IsPassedOnByWhoSends) {
  static constexpr std::uint64_t kBytes = Broadcast::kTreeBytes + 8;
  Fleet fleet(4, [](Member& me) {
    Seat seat(me);
    const auto source = seat.team.allocate("source", kBytes);
    const auto memory = seat.team.allocate("memory", 4 * (kBytes + 8));
    Broadcast broadcast(seat.comm, {}, {memory.get()});
    const auto of = [](team::Rank rank) { return rank * (kBytes + 8); };  // its signal, then its data
    source->local().copy_in(0, std::vector<std::byte>(kBytes, static_cast<std::byte>(me.index() + 1)));
    me.barrier();
    const comm::Request sent =
        broadcast.send(*seat.channel, *memory, of(me.index()) + 8, source->of(me.index()).span(0, kBytes),
                       {.offset = of(me.index()), .value = 1});
    EXPECT_TRUE(seat.comm.wait(*seat.channel, sent, seat.deadline()).done());
    me.barrier();
    for (team::Rank rank = 0; rank < me.count(); ++rank) {
      EXPECT_EQ(memory->local().word<ControlWord>(of(rank)).load(), 1u);
      std::vector<std::byte> found(kBytes);
      memory->local().copy_out(of(rank) + 8, found);
      EXPECT_EQ(found, std::vector<std::byte>(kBytes, static_cast<std::byte>(rank + 1))) << "of rank " << rank;
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

// Who was to pass it on is dead: it is named, and what is sent afterwards, to another place, reaches all others.
TEST(Broadcast, NamesWhoDidNotPassItOn) {
  static constexpr std::uint64_t kBytes = Broadcast::kTreeBytes + 8;
  Survivors survivors;
  Fleet fleet(7, [&](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("memory", 2 * (kBytes + 8));
    const auto source = seat.team.allocate("source", kBytes);
    Broadcast broadcast(seat.comm, {}, {memory.get()});
    if (me.index() == 1) ::raise(SIGKILL);
    const auto send = [&](std::uint64_t place) {
      const comm::Request sent = broadcast.send(*seat.channel, *memory, place + 8, source->of(0).span(0, kBytes),
                                                {.offset = place, .value = 1});
      return seat.comm.wait(*seat.channel, sent, seat.deadline());
    };
    if (me.index() == 0) {
      comm::Status status;
      while (status.done()) status = send(0);  // until the death is known
      EXPECT_EQ(status.outcome, Outcome::peer_lost);
      EXPECT_EQ(status.lost, 1u);
      EXPECT_EQ(send(kBytes + 8).lost, 1u);
    } else {
      const auto signal = memory->local().word<ControlWord>(kBytes + 8);
      const auto is_set = [](std::uint64_t value) { return value != 0; };
      EXPECT_EQ(seat.channel->wait_until(memory->local(), signal, is_set, seat.deadline()), Outcome::done);
    }
    survivors.leave_together(6);
  });
  for (const unsigned index : {0, 2, 3, 4, 5, 6}) EXPECT_EQ(fleet.wait(index), 0);
}

}  // namespace
}  // namespace farside::test
