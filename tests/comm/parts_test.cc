// What transfers in parts, atomics on numbers and the counts of traffic promise, between real processes.
#include "farside/comm/parts.h"

#include <csignal>
#include <numeric>

#include <gtest/gtest.h>

#include "farside/base/error.h"
#include "farside/comm/arrival_counter.h"
#include "farside/comm/barrier.h"
#include "farside/comm/broadcast.h"
#include "farside/comm/collectives.h"
#include "farside/comm/messages.h"
#include "farside/comm/rendezvous.h"

#include "tests/comm/seat.h"

namespace farside::test {
namespace {

constexpr std::uint64_t kFlag = 0;
constexpr std::uint64_t kData = 64;
constexpr std::uint64_t kRows = 50;
constexpr std::uint64_t kColumns = 40;

std::uint64_t at(std::uint64_t row, std::uint64_t column) { return kData + 8 * (row * kColumns + column); }

// A column goes over, and nothing but the column; who sees the flag sees all of it.
TEST(Parts, CarryAColumnAndThenTheNotice) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("matrix", at(kRows, 0));
    const RemoteRegion& other = memory->of(1 - me.index());
    std::vector<std::uint64_t> column(kRows);
    std::iota(column.begin(), column.end(), 1000 * (me.index() + 1));
    auto parts = comm::strided({&other, at(0, 3), 8 * kColumns}, {column.data(), 8}, 8, kRows);
    const comm::Request sent =
        seat.comm.put(*seat.channel, std::move(parts), comm::SetWord{other.word<ControlWord>(kFlag), 1});
    ASSERT_TRUE(seat.comm.wait(*seat.channel, sent, seat.deadline()).done());

    const auto flag = memory->local().word<ControlWord>(kFlag);
    const auto is_set = [](std::uint64_t value) { return value == 1; };
    ASSERT_EQ(seat.channel->wait_until(memory->local(), flag, is_set, seat.deadline()), Outcome::done);
    for (std::uint64_t row = 0; row < kRows; ++row) {
      for (std::uint64_t column_at = 0; column_at < kColumns; ++column_at) {
        const std::uint64_t expected = column_at == 3 ? 1000 * (2 - me.index()) + row : 0;
        ASSERT_EQ(memory->local().word<ControlWord>(at(row, column_at)).load(), expected) << row << ", " << column_at;
      }
    }

    std::vector<std::uint64_t> back(kRows);
    const comm::Request got =
        seat.comm.get(*seat.channel, comm::strided({&other, at(0, 3), 8 * kColumns}, {back.data(), 8}, 8, kRows));
    ASSERT_TRUE(seat.comm.wait(*seat.channel, got, seat.deadline()).done());
    EXPECT_EQ(back, column);
    seat.leave(me);
  });
  fleet.expect_success();
}

// Elements of several ranks at once, in any order and more than once.
TEST(Parts, GoWhereAnIndexSays) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("values", kData + 8 * 100);
    for (std::uint64_t index = 0; index < 100; ++index) {
      memory->local().word<ControlWord>(kData + 8 * index).store(1000 * me.index() + index);
    }
    me.barrier();
    const std::vector<std::uint64_t> indices{99, 0, 7, 7};
    std::vector<std::uint64_t> found(3 * indices.size());
    std::vector<comm::Part> parts;
    for (team::Rank rank = 0; rank < me.count(); ++rank) {
      const auto of_rank = comm::indexed(memory->of(rank), kData, indices, std::span(found).subspan(4 * rank, 4));
      parts.insert(parts.end(), of_rank.begin(), of_rank.end());
    }
    const comm::Request got = seat.comm.get(*seat.channel, std::move(parts));
    ASSERT_TRUE(seat.comm.wait(*seat.channel, got, seat.deadline()).done());
    const std::vector<std::uint64_t> expected{99, 0, 7, 7, 1099, 1000, 1007, 1007, 2099, 2000, 2007, 2007};
    EXPECT_EQ(found, expected);
    EXPECT_ANY_THROW((void)comm::indexed(memory->of(0), kData, std::vector<std::uint64_t>{100}, std::span(found)));
    seat.leave(me);
  });
  fleet.expect_success();
}

// The death of one of several ends it, and is named.
TEST(Parts, NameWhoDied) {
  Survivors survivors;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("values", kData + 8);
    if (me.index() == 2) ::raise(SIGKILL);
    std::uint64_t value = 1;
    comm::Status status;
    do {  // until the death is known
      std::vector<comm::Part> parts;
      for (team::Rank rank = 0; rank < me.count(); ++rank)
        parts.push_back({memory->of(rank).span(kData, 8), LocalSpan(value)});
      const comm::Request put = seat.comm.put(*seat.channel, std::move(parts));
      status = seat.comm.wait(*seat.channel, put, seat.deadline());
    } while (status.done());
    EXPECT_EQ(status.outcome, Outcome::peer_lost);
    EXPECT_EQ(status.lost, 2u);
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(1), 0);
}

// Nothing that a rank added is lost, whatever the kind of number.
TEST(Atomics, AddUp) {
  static constexpr int kTimes = 50;
  Fleet fleet(4, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("numbers", 24);
    const auto word = [&](std::uint64_t offset) { return memory->of(0).word<AtomicWord>(offset); };
    for (int time = 0; time < kTimes; ++time) {
      ASSERT_TRUE(seat.comm.fetch_add(*seat.channel, word(0), std::int64_t{-3}, seat.deadline()).status.done());
      ASSERT_TRUE(seat.comm.fetch_add(*seat.channel, word(8), 0.5, seat.deadline()).status.done());
      const auto greatest = [&](std::uint64_t old) { return std::max<std::uint64_t>(old, me.index() * 100 + time); };
      ASSERT_TRUE(
          seat.comm.fetch_update<std::uint64_t>(*seat.channel, word(16), greatest, seat.deadline()).status.done());
    }
    me.barrier();
    EXPECT_EQ(seat.comm.fetch_add(*seat.channel, word(0), std::int64_t{0}, seat.deadline()).value, -3 * kTimes * 4);
    EXPECT_EQ(seat.comm.fetch_add(*seat.channel, word(8), 0.0, seat.deadline()).value, 0.5 * kTimes * 4);
    EXPECT_EQ(seat.comm.fetch_add(*seat.channel, word(16), std::uint64_t{0}, seat.deadline()).value, 300u + kTimes - 1);
    seat.leave(me);
  });
  fleet.expect_success();
}

// Each rank knows how much it has moved, and from or to which peer.
TEST(Traffic, IsCountedByPeer) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("counted", kData + 1000);
    if (me.index() == 0) {
      std::vector<std::byte> data(1000);
      const LocalSpan local(data.data(), data.size());
      (void)seat.comm.put(*seat.channel, memory->of(1).span(kData, 1000), local);
      (void)seat.comm.get(*seat.channel, local, memory->of(2).span(kData, 1000));
      (void)seat.comm.copy(*seat.channel, memory->of(1).span(kData, 10), memory->of(2).span(kData, 10));
      (void)seat.comm.notify(*seat.channel, comm::SetWord{memory->of(1).word<ControlWord>(kFlag), 1});
      (void)seat.comm.get(*seat.channel, comm::strided({&memory->of(1), kData, 16}, {data.data(), 8}, 8, 5));
      EXPECT_EQ(seat.comm.traffic(1).operations, 1u + 1 + 1 + 5);
      EXPECT_EQ(seat.comm.traffic(1).bytes, 1000u + 10 + 8 + 40);
      EXPECT_EQ(seat.comm.traffic(2).operations, 2u);
      EXPECT_EQ(seat.comm.traffic(2).bytes, 1010u);
      EXPECT_EQ(seat.comm.traffic(0).operations, 0u);
      EXPECT_TRUE(seat.comm.wait(*seat.channel, seat.comm.issued(), seat.deadline()).done());  // `data` is used
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

// What does not fit is refused at the call, whatever its size: nothing of it reaches the service thread.
TEST(Parts, AreRefusedWhereTheTwoSidesDiffer) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    constexpr std::uint64_t kBytes = 1U << 20U;
    constexpr std::uint64_t kMax = ~std::uint64_t{0};
    const auto memory = seat.team.allocate("memory", kBytes);
    const RemoteRegion& other = memory->of(1 - me.index());
    std::vector<std::byte> data(kBytes);
    for (const std::uint64_t bytes : {std::uint64_t{8}, kBytes}) {
      for (const std::uint64_t local : {std::uint64_t{0}, bytes - 1, bytes + 1}) {
        const LocalSpan buffer(data.data(), local);
        EXPECT_THROW((void)seat.comm.put(*seat.channel, other.span(0, bytes), buffer), UsageError);
        EXPECT_THROW((void)seat.comm.get(*seat.channel, buffer, other.span(0, bytes)), UsageError);
        const std::vector<comm::Part> parts = {{other.span(0, 8), LocalSpan(data.data(), 8)},
                                               {other.span(0, bytes), buffer}};
        EXPECT_THROW((void)seat.comm.put(*seat.channel, parts), UsageError);
        EXPECT_THROW((void)seat.comm.get(*seat.channel, parts), UsageError);
      }
    }
    EXPECT_TRUE(seat.comm.issued().none());

    // Strides and indices that wrap around to a place which there is.
    EXPECT_THROW((void)comm::strided({&other, 8, kMax - 7}, {data.data(), 8}, 8, 2), Error);
    EXPECT_THROW((void)comm::strided({&other, 0, std::uint64_t{1} << 63U}, {data.data(), 8}, 8, 3), Error);
    EXPECT_THROW((void)comm::strided({&other, 0, 8}, {data.data(), 8}, 8, kMax), Error);
    EXPECT_THROW((void)comm::strided({&other, kMax, 8}, {data.data(), 8}, 8, 1), Error);
    EXPECT_THROW((void)comm::strided({&other, 0, 8}, {data.data(), 8}, 8, kBytes / 8 + 1), Error);
    EXPECT_EQ(comm::strided({&other, 0, 8}, {data.data(), 8}, 8, kBytes / 8).size(), kBytes / 8);
    EXPECT_TRUE(comm::strided({&other, 0, 8}, {data.data(), 8}, 8, 0).empty());
    std::vector<std::uint64_t> values(2);
    const std::span<std::uint64_t> local(values);
    for (const std::vector<std::uint64_t>& indices :
         {std::vector<std::uint64_t>{0}, {0, 1, 2}, {0, kMax}, {0, std::uint64_t{1} << 61U}, {0, kBytes / 8}}) {
      EXPECT_THROW((void)comm::indexed(other, 0, indices, local), Error);
    }
    EXPECT_THROW((void)comm::indexed(other, 16, std::vector<std::uint64_t>{0, kMax - 1}, local), Error);
    EXPECT_EQ(comm::indexed(other, 0, std::vector<std::uint64_t>{0, kBytes / 8 - 1}, local).size(), 2U);
    seat.leave(me);
  });
  fleet.expect_success();
}

// Ranks that there are not, and tables larger than can be counted.
TEST(Comm, RefusesWhatThereIsNot) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("memory", 64);
    EXPECT_THROW((void)seat.comm.traffic(2), UsageError);
    EXPECT_THROW(comm::Barrier(seat.comm, {0, 1, 2}), UsageError);
    EXPECT_THROW(comm::Collectives(seat.comm, {me.index(), 7}), UsageError);
    EXPECT_THROW(comm::Broadcast(seat.comm, {0, 2}), UsageError);
    for (const std::uint64_t keys : {std::uint64_t{1} << 40U, std::uint64_t{1} << 59U, ~std::uint64_t{0}}) {
      EXPECT_THROW(comm::Rendezvous(seat.comm, {memory.get()}, keys), UsageError) << keys;
    }
    constexpr std::uint32_t kMany = 0xffff'ffff;
    const std::vector<comm::Messages::Handler> handlers = {[](comm::Messages::Call&) {}};
    EXPECT_THROW(comm::Messages(seat.comm, handlers, {.places = kMany, .payload_bytes = kMany}), UsageError);
    EXPECT_THROW(comm::Messages(seat.comm, handlers, {.places = kMany, .payload_bytes = 1U << 20U}), UsageError);
    comm::ArrivalCounter counter(seat.comm);
    EXPECT_THROW((void)counter.at(*seat.channel, 2, 0, seat.deadline()), UsageError);
    EXPECT_THROW((void)counter.wait(*seat.channel, 0, 1, std::vector<team::Rank>{2}, seat.deadline()), UsageError);
    comm::Barrier barrier(seat.comm);
    EXPECT_THROW((void)barrier.wait(*seat.channel, 0, seat.deadline()), UsageError);
    EXPECT_TRUE(barrier.pass(*seat.channel, seat.deadline()).done());
    seat.leave(me);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
