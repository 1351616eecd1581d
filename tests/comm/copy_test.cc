// What copies and their notices promise, between real processes.
#include <gtest/gtest.h>

#include "tests/comm/seat.h"

namespace farside::test {
namespace {

constexpr std::uint64_t kFlag = 0;
constexpr std::uint64_t kCount = 64;
constexpr std::uint64_t kData = 128;

std::vector<std::byte> pattern(std::uint64_t bytes, std::uint64_t seed) {
  std::vector<std::byte> made(bytes);
  for (std::uint64_t at = 0; at < bytes; ++at) made[at] = static_cast<std::byte>(at * 7 + seed);
  return made;
}

std::vector<std::byte> bytes_at(const team::SymmetricRegion& memory, std::uint64_t bytes) {
  std::vector<std::byte> found(bytes);
  memory.local().copy_out(kData, found);
  return found;
}

/// Waits for a word of this member's own memory.
template <class Word>
void await(Seat& seat, const team::SymmetricRegion& memory, std::uint64_t offset, std::uint64_t value) {
  const auto is_there = [value](std::uint64_t seen) { return seen >= value; };
  ASSERT_EQ(seat.channel->wait_until(memory.local(), memory.local().word<Word>(offset), is_there, seat.deadline()),
            Outcome::done);
}

// A small copy is made at once on mapped memory, a large one in the background.
class CopySizes : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, CopySizes, testing::Values(0, 1, 8, 4095, comm::Comm::kInlineBytes + 1, 3'000'001));

// A notice is seen only after all the bytes it belongs to.
TEST_P(CopySizes, AreThereWhenTheSignalIs) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("copied", kData + GetParam());
    for (std::uint64_t round = 1; round <= 5; ++round) {
      std::vector<std::byte> data = pattern(GetParam(), round);
      if (me.index() == 0) {
        const RemoteRegion& other = memory->of(1);
        const comm::Request put =
            seat.comm.put(*seat.channel, other.span(kData, data.size()), LocalSpan(data.data(), data.size()),
                          comm::SetWord{other.word<ControlWord>(kFlag), round});
        EXPECT_TRUE(seat.comm.wait(*seat.channel, put, seat.deadline()).done());
        EXPECT_TRUE(seat.comm.finished(put));
      } else {
        await<ControlWord>(seat, *memory, kFlag, round);
        EXPECT_EQ(bytes_at(*memory, data.size()), data);
      }
      me.barrier();
    }
  });
  fleet.expect_success();
}

TEST_P(CopySizes, ComeBackWithGet) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("copied", kData + GetParam());
    memory->local().copy_in(kData, pattern(GetParam(), me.index()));
    me.barrier();
    std::vector<std::byte> data(GetParam());
    const comm::Request got = seat.comm.get(*seat.channel, LocalSpan(data.data(), data.size()),
                                            memory->of(1 - me.index()).span(kData, data.size()));
    EXPECT_TRUE(seat.comm.wait(*seat.channel, got, seat.deadline()).done());
    EXPECT_EQ(data, pattern(GetParam(), 1 - me.index()));
    me.barrier();
  });
  fleet.expect_success();
}

// Rank 2 copies from 0 to 1, who do nothing for it.
TEST_P(CopySizes, GoBetweenTwoOthers) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("copied", kData + GetParam());
    if (me.index() == 0) memory->local().copy_in(kData, pattern(GetParam(), 0));
    me.barrier();
    if (me.index() == 2) {
      const RemoteRegion& to = memory->of(1);
      const comm::Request copied =
          seat.comm.copy(*seat.channel, to.span(kData, GetParam()), memory->of(0).span(kData, GetParam()),
                         comm::AddToWord{to.word<AtomicWord>(kCount), 1});
      EXPECT_TRUE(seat.comm.wait(*seat.channel, copied, seat.deadline()).done());
    }
    if (me.index() == 1) {
      await<AtomicWord>(seat, *memory, kCount, 1);
      EXPECT_EQ(bytes_at(*memory, GetParam()), pattern(GetParam(), 0));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// Memory that one rank alone makes, at any time, is as good as any once its handle is known: as a source, as a
// destination, and for a third rank that copies between two such.
TEST_P(CopySizes, ReachMemoryThatWasMadeOnTheSpot) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    const auto mine = seat.team.fabric().create_region("on the spot", kData + GetParam());
    if (me.index() == 0) mine->copy_in(kData, pattern(GetParam(), 0));
    const std::vector<std::string> handles = me.exchange(mine->handle());
    const team::Rank other = me.index() == 0 ? 1 : 0;
    if (me.index() == 2) {
      const auto from = seat.team.fabric().attach(0, handles[0]);
      const auto to = seat.team.fabric().attach(1, handles[1]);
      const comm::Request copied =
          seat.comm.copy(*seat.channel, to->span(kData, GetParam()), from->span(kData, GetParam()),
                         comm::AddToWord{to->word<AtomicWord>(kCount), 1});
      EXPECT_TRUE(seat.comm.wait(*seat.channel, copied, seat.deadline()).done());
    }
    me.barrier();
    if (me.index() != 2) {
      const auto theirs = seat.team.fabric().attach(other, handles[other]);
      std::vector<std::byte> got(GetParam());
      const comm::Request get =
          seat.comm.get(*seat.channel, LocalSpan(got.data(), got.size()), theirs->span(kData, got.size()));
      EXPECT_TRUE(seat.comm.wait(*seat.channel, get, seat.deadline()).done());
      EXPECT_EQ(got, pattern(GetParam(), 0));
      EXPECT_EQ(mine->word<AtomicWord>(kCount).load(), me.index());
    }
    me.barrier();
  });
  fleet.expect_success();
}

// No other rank helps: rank 2 copies between two ranks that are stopped.
TEST(Copies, GoBetweenTwoWhoAreStopped) {
  if (!all_map_all()) GTEST_SKIP() << "elsewhere service threads take part";
  static constexpr std::uint64_t kBytes = 3'000'001;
  Shared<std::atomic<unsigned>> ready;
  Shared<std::atomic<bool>> stopped;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("copied", kData + kBytes);
    if (me.index() == 0) memory->local().copy_in(kData, pattern(kBytes, 0));
    ++*ready;
    if (me.index() == 2) {
      ASSERT_TRUE(eventually([&] { return stopped->load(); }));
      const comm::Request copied =
          seat.comm.copy(*seat.channel, memory->of(1).span(kData, kBytes), memory->of(0).span(kData, kBytes));
      EXPECT_TRUE(seat.comm.wait(*seat.channel, copied, seat.deadline()).done());
      *stopped = false;
    }
    me.barrier();
    EXPECT_TRUE(me.index() != 1 || bytes_at(*memory, kBytes) == pattern(kBytes, 0));
    me.barrier();
  });
  ASSERT_TRUE(eventually([&] { return *ready == 3; }));
  for (const unsigned index : {0U, 1U}) fleet.stop(index);
  *stopped = true;
  EXPECT_TRUE(eventually([&] { return !stopped->load(); }));
  for (const unsigned index : {0U, 1U}) fleet.signal(index, SIGCONT);
  fleet.expect_success();
}

// Many may add to one word; it has counted each when it has counted all.
TEST(Notices, OfSeveralAddUp) {
  static constexpr std::uint64_t kRounds = 50;
  Fleet fleet(4, [](Member& me) {
    Seat seat(me);
    const auto memory = seat.team.allocate("copied", kData + 8 * std::uint64_t{me.count()});
    if (me.index() != 0) {
      const RemoteRegion& to = memory->of(0);
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        std::uint64_t value = round;
        const comm::Request put = seat.comm.put(*seat.channel, to.span(kData + 8 * me.index(), 8), LocalSpan(value),
                                                comm::AddToWord{to.word<AtomicWord>(kCount), 1});
        EXPECT_TRUE(seat.comm.wait(*seat.channel, put, seat.deadline()).done());
      }
    } else {
      await<AtomicWord>(seat, *memory, kCount, kRounds * (me.count() - 1));
      for (team::Rank rank = 1; rank < me.count(); ++rank) {
        EXPECT_EQ(memory->local().word<ControlWord>(kData + 8 * rank).load(), kRounds);
      }
    }
    me.barrier();
  });
  fleet.expect_success();
}

// `issued` stands for everything before it, and finishes after it.
TEST(Requests, OfAllThatWasIssued) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    constexpr std::uint64_t kBytes = 1U << 20U;
    const auto memory = seat.team.allocate("copied", kData + 8 * kBytes);
    std::vector<std::byte> data = pattern(kBytes, me.index());
    for (std::uint64_t piece = 0; piece < 8; ++piece) {
      (void)seat.comm.put(*seat.channel, memory->of(1 - me.index()).span(kData + piece * kBytes, kBytes),
                          LocalSpan(data.data(), data.size()));
    }
    const comm::Request all = seat.comm.issued();
    ASSERT_TRUE(seat.comm.wait(*seat.channel, all, seat.deadline()).done());
    EXPECT_TRUE(seat.comm.finished(all));
    me.barrier();
    EXPECT_EQ(bytes_at(*memory, kBytes), pattern(kBytes, 1 - me.index()));
    me.barrier();
  });
  fleet.expect_success();
}

// What was handed over to the service thread ends like anything else when its peer dies, and says who that was.
TEST(Requests, NameWhoDied) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    constexpr std::uint64_t kBytes = 1U << 20U;
    const auto memory = seat.team.allocate("copied", kData + kBytes);
    if (me.index() == 1) ::raise(SIGKILL);
    std::vector<std::byte> data(kBytes);
    for (const std::uint64_t bytes : {std::uint64_t{8}, kBytes}) {
      comm::Status status;
      do {  // until the death is known
        const comm::Request put =
            seat.comm.put(*seat.channel, memory->of(1).span(kData, bytes), LocalSpan(data.data(), bytes));
        status = seat.comm.wait(*seat.channel, put, seat.deadline());
      } while (status.done());
      EXPECT_EQ(status.outcome, Outcome::peer_lost);
      EXPECT_EQ(status.lost, 1u);
    }
  });
  EXPECT_EQ(fleet.wait(0), 0);
}

// A failure is told to each wait for it, whatever has succeeded since, and as often as it is waited for.
TEST(Requests, FailThoughLaterOnesSucceed) {
  Survivors survivors;
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    constexpr std::uint64_t kBytes = 1U << 20U;
    const auto memory = seat.team.allocate("copied", kData + kBytes);
    std::vector<std::byte> data(kBytes);
    const auto put = [&](team::Rank to, std::uint64_t bytes) {
      return seat.comm.put(*seat.channel, memory->of(to).span(kData, bytes), LocalSpan(data.data(), bytes));
    };
    const auto wait = [&](const comm::Request& request) {
      return seat.comm.wait(*seat.channel, request, seat.deadline());
    };
    if (me.index() == 2) ::raise(SIGKILL);
    if (me.index() == 0) {
      while (wait(put(2, 8)).done()) continue;  // until the death is known
      const comm::Request before = seat.comm.issued();
      const comm::Request failing = put(2, kBytes);
      const comm::Request succeeding = put(1, kBytes);
      const comm::Request both = seat.comm.issued(before);
      EXPECT_TRUE(wait(succeeding).done());
      for (const comm::Request& request :
           {failing, both, comm::joined(failing, succeeding), seat.comm.issued(), failing}) {
        EXPECT_EQ(wait(request).outcome, Outcome::peer_lost);
        EXPECT_EQ(wait(request).lost, 2U);
      }
      EXPECT_TRUE(wait(seat.comm.issued(both)).done()) << "nothing was issued since";

      for (std::uint64_t more = 0; more < 1500; ++more) {  // more than are remembered one by one
        (void)put(2, 8);
        (void)put(1, comm::Comm::kInlineBytes + 8);
      }
      EXPECT_TRUE(wait(put(1, kBytes)).done());
      EXPECT_EQ(wait(failing).lost, 2U);
      EXPECT_EQ(wait(seat.comm.issued(both)).lost, 2U);
      EXPECT_TRUE(wait(seat.comm.issued(seat.comm.issued())).done());
    }
    survivors.leave_together(2);
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(1), 0);
}

}  // namespace
}  // namespace farside::test
