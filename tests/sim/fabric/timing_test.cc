// A performance run takes the time that one reckons by hand.
#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "sim/world.h"

namespace farside::sim {
namespace {

using team::Rank;

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kMegabyte = 1000000;  // a millisecond at 1 GB/s

Machine round_figures() {
  return {.name = "round figures",
          .network = {.overhead = nanoseconds(100),
                      .round_trip = nanoseconds(2000),
                      .nic_operation = nanoseconds(50),
                      .link_bytes_per_s = 1e9,
                      .nic_bytes_per_s = 2e9},
          .files = {.servers = 2,
                    .stripe_bytes = kMegabyte,
                    .server_bytes_per_s = 1e9,
                    .client_bytes_per_s = 5e8,
                    .latency = microseconds(500),
                    .server_request = microseconds(10)},
          .copy_bytes_per_s = 1e9};
}

// What an empty operation takes on that machine.
constexpr Duration kEmpty = nanoseconds(100 + 2000 + 50);

// Each process has a region of a few megabytes and runs a program, all from the same moment on; says how long each
// took.
class Stopwatch {
 public:
  struct Side {
    World& world;
    Rank rank;
    team::SymmetricRegion& memory;
    Channel& channel;

    [[nodiscard]] Deadline later() const { return world.fabric(rank).in(std::chrono::hours(1)); }
    void read(Rank from, std::uint64_t bytes) const {
      ASSERT_EQ(channel.read(memory.local().span(0, bytes), memory.of(from).span(0, bytes), later()), Outcome::done);
    }
    void write(Rank to, std::uint64_t bytes) const {
      ASSERT_EQ(channel.write(memory.of(to).span(0, bytes), memory.local().span(0, bytes), later()), Outcome::done);
    }
  };
  using Program = std::function<void(Side&)>;

  static std::vector<Duration> run(const std::vector<Program>& programs) {
    World world(1, static_cast<Rank>(programs.size()), round_figures());
    std::vector<Duration> took(programs.size());
    for (Rank rank = 0; rank < programs.size(); ++rank) {
      world.on(rank, [&, rank] {
        Fabric& fabric = world.fabric(rank);
        const auto memory = world.team(rank).allocate("timed", 4 * kMegabyte);
        const auto channel = fabric.open_channel();
        Side side{world, rank, *memory, *channel};
        const Time begin{1000000};
        fabric.sleep(begin - fabric.now());
        if (programs[rank]) programs[rank](side);
        took[rank] = fabric.now() - begin;
        fabric.sleep(std::chrono::hours(1));  // the region stays until all are through
      });
    }
    EXPECT_TRUE(world.run(std::chrono::hours(2)));
    return took;
  }
};

// The clock counts whole nanoseconds, and rounds at each step.
void expect_about(Duration measured, Duration reckoned) {
  EXPECT_NEAR(static_cast<double>(measured.count()), static_cast<double>(reckoned.count()), 5);
}

Stopwatch::Program reads(Rank from, std::uint64_t bytes) {
  return [from, bytes](Stopwatch::Side& me) { me.read(from, bytes); };
}
Stopwatch::Program writes(Rank to, std::uint64_t bytes) {
  return [to, bytes](Stopwatch::Side& me) { me.write(to, bytes); };
}
Stopwatch::Program reads_file(std::uint64_t offset, std::uint64_t bytes) {
  return [offset, bytes](Stopwatch::Side& me) { me.world.read_file(me.rank, offset, bytes); };
}

TEST(Timing, AReadTakesOverheadRoundTripAndItsBytesOnTheLink) {
  expect_about(Stopwatch::run({reads(1, 1000), {}})[0], kEmpty + microseconds(1));
  expect_about(Stopwatch::run({reads(1, kMegabyte), {}})[0], kEmpty + milliseconds(1));
}

TEST(Timing, AnAtomicTakesAsLongAsAReadOfAWord) {
  const auto took = Stopwatch::run(
      {[](Stopwatch::Side& me) { (void)me.channel.fetch_add(me.memory.of(1).word<AtomicWord>(0), 1, me.later()); },
       {}});
  expect_about(took[0], kEmpty + nanoseconds(8));
}

// 2 GB/s out of the NIC for four, at 1 GB/s a link at most.
TEST(Timing, TheReadersOfOneNicShareIt) {
  const auto took =
      Stopwatch::run({{}, reads(0, kMegabyte), reads(0, kMegabyte), reads(0, kMegabyte), reads(0, kMegabyte)});
  for (Rank rank = 1; rank < 5; ++rank) EXPECT_NEAR(static_cast<double>(took[rank].count()), 2e6, 1e4) << rank;
}

TEST(Timing, TheWritersToOneNicShareIt) {
  const auto took =
      Stopwatch::run({{}, writes(0, kMegabyte), writes(0, kMegabyte), writes(0, kMegabyte), writes(0, kMegabyte)});
  for (Rank rank = 1; rank < 5; ++rank) EXPECT_NEAR(static_cast<double>(took[rank].count()), 2e6, 1e4) << rank;
}

// Three readers get 2/3 GB/s each; the two that go on alone are back at the link's 1 GB/s.
TEST(Timing, WhatOneLeavesTheOthersGet) {
  const auto took = Stopwatch::run({{}, reads(0, 2 * kMegabyte), reads(0, 2 * kMegabyte), reads(0, kMegabyte)});
  EXPECT_NEAR(static_cast<double>(took[3].count()), 1.5e6, 1e4);
  EXPECT_NEAR(static_cast<double>(took[1].count()), 2.5e6, 1e4);
}

TEST(Timing, ReadersOfDifferentNicsDoNotMeet) {
  const auto took = Stopwatch::run({reads(1, kMegabyte), reads(2, kMegabyte), reads(0, kMegabyte)});
  for (const Duration each : took) EXPECT_NEAR(static_cast<double>(each.count()), 1e6, 1e4);
}

// Behind a transfer of a millisecond, a word still takes its 2 us: packets of different operations alternate.
TEST(Timing, ASmallOperationSlipsInBetweenBulkTransfers) {
  expect_about(Stopwatch::run({{}, reads(0, kMegabyte), reads(0, 8)})[2], kEmpty + nanoseconds(50 + 8));
}

TEST(Timing, OperationsQueueForTheirTargetsNic) {
  std::vector<Stopwatch::Program> programs(101, reads(0, 8));
  programs[0] = {};
  const auto took = Stopwatch::run(programs);
  expect_about(*std::ranges::max_element(took), kEmpty + nanoseconds(8) + 99 * nanoseconds(50));
}

TEST(Timing, TheOverheadsOfABatchAddUpAndTheirRoundTripsDoNot) {
  const auto took = Stopwatch::run({[](Stopwatch::Side& me) {
                                      std::array<std::uint64_t, 10> words{};
                                      Batch batch(me.channel);
                                      for (auto& word : words) batch.read(LocalSpan(word), me.memory.of(1).span(0, 8));
                                      (void)batch.wait(me.later());
                                    },
                                    {}});
  expect_about(took[0], kEmpty + nanoseconds(8) + 9 * nanoseconds(100));
}

TEST(Timing, AFileIsReadAtNoMoreThanAClientsSpeed) {
  expect_about(Stopwatch::run({reads_file(0, kMegabyte)})[0], microseconds(510) + milliseconds(2));
}

// Eight megabytes from two servers of 1 GB/s: four milliseconds, however many readers there are.
TEST(Timing, AllReadersTogetherGetNoMoreThanTheFileSystemHas) {
  std::vector<Stopwatch::Program> programs;
  for (std::uint64_t i = 0; i < 8; ++i) programs.push_back(reads_file(i * kMegabyte, kMegabyte));
  const auto took = Stopwatch::run(programs);
  EXPECT_NEAR(static_cast<double>(std::ranges::max_element(took)->count()), 4.5e6, 1e5);
}

// All want the same stripe, so the other server has nothing to do.
TEST(Timing, OneStripeComesFromOneServer) {
  const auto took = Stopwatch::run(std::vector<Stopwatch::Program>(8, reads_file(0, kMegabyte)));
  EXPECT_NEAR(static_cast<double>(std::ranges::max_element(took)->count()), 8.5e6, 1e5);
}

// The bytes that protocols look at do travel, and what they change stays changed.
TEST(Timing, AWordThatWasWrittenIsRead) {
  std::uint64_t seen = 0;
  Stopwatch::run({[](Stopwatch::Side& me) {
                    (void)me.channel.store(me.memory.of(1).word<ControlWord>(8), 7, me.later());
                    (void)me.channel.fetch_add(me.memory.of(1).word<AtomicWord>(16), 5, me.later());
                  },
                  [&seen](Stopwatch::Side& me) {
                    me.world.fabric(1).sleep(milliseconds(1));
                    std::array<std::uint64_t, 3> words{};
                    (void)me.channel.read(LocalSpan(words), me.memory.of(1).span(0, 24), me.later());
                    seen = words[1] * 10 + words[2];
                  }});
  EXPECT_EQ(seen, 75u);
}

}  // namespace
}  // namespace farside::sim
