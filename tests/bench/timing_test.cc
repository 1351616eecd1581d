// How the harness times operations, and the order in which it does.
#include "bench/harness/timing.h"

#include <numeric>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "bench/harness/race.h"

namespace farside::bench {
namespace {

// Operations shorter than the clock's own cost are timed many at once, so that the clock hardly counts.
TEST(Timing, BatchesWhatIsShorterThanTheClock) {
  std::uint64_t largest = 0;
  volatile std::uint64_t work = 0;
  const auto run = [&](std::uint64_t operations) {
    largest = std::max(largest, operations);
    for (; operations != 0; --operations) work = work + 1;
  };
  const Timing timing = time_operations(run, std::chrono::milliseconds(5));
  EXPECT_GT(largest, 100U);
  EXPECT_LT(timing.p50_ns, 1000);
  EXPECT_LE(timing.p50_ns, timing.p99_ns);
}

// What takes longer than a batch is timed one by one, and never less than three times.
TEST(Timing, TimesLongOperationsOneByOne) {
  const auto run = [](std::uint64_t operations) {
    EXPECT_EQ(operations, 1U);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const Timing timing = time_operations(run, std::chrono::nanoseconds(1));
  EXPECT_EQ(timing.batches, 3);
  EXPECT_GE(timing.p50_ns, 1e6);
}

// Contenders send timings as text: nothing may be lost on the way.
TEST(Timing, SurvivesItsLine) {
  const Timing timing{1.0 / 3, 1e9 / 7, 12, 0.011};
  const Timing back = Timing::from_line(timing.to_line());
  EXPECT_EQ(back.p50_ns, timing.p50_ns);
  EXPECT_EQ(back.p99_ns, timing.p99_ns);
  EXPECT_EQ(back.batches, timing.batches);
  EXPECT_EQ(back.clock_share, timing.clock_share);
  EXPECT_THROW(static_cast<void>(Timing::from_line("Segmentation fault")), std::runtime_error);
}

// Ours and the baselines take turns, so that a slow minute of the machine meets them all. None always comes first.
TEST(Race, TakesTurnsInAnOrderDrawnAnew) {
  constexpr unsigned kRepetitions = 12;
  std::string order;
  const std::vector<std::function<char()>> contenders{[&] { return order += 'a', 'a'; },
                                                      [&] { return order += 'b', 'b'; }};
  const auto samples = race<char>(kRepetitions, contenders);
  EXPECT_EQ(samples[1], std::vector<char>(kRepetitions, 'b'));
  std::set<std::string> orders;
  for (unsigned repetition = 0; repetition < kRepetitions; ++repetition) orders.insert(order.substr(2 * repetition, 2));
  EXPECT_EQ(orders, (std::set<std::string>{"ab", "ba"}));
}

}  // namespace
}  // namespace farside::bench
