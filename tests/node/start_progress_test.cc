// How long farside up waits for nodes that recover from their journals.
#include <chrono>

#include <gtest/gtest.h>

#include "node/pool.h"

namespace farside::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeout = 40s;

TEST(ProgressDeadline, PassesWhenNothingHappens) {
  const ProgressDeadline::Clock::time_point start{};
  ProgressDeadline deadline(kTimeout, start);
  EXPECT_FALSE(deadline.has_passed(start + kTimeout, {}));
  EXPECT_TRUE(deadline.has_passed(start + kTimeout + 1s, {}));
}

TEST(ProgressDeadline, MovesOnWhileJournalsAreReadAndNodesBecomeReady) {
  const ProgressDeadline::Clock::time_point start{};
  ProgressDeadline deadline(kTimeout, start);
  EXPECT_FALSE(deadline.has_passed(start + kTimeout, {.ready = 0, .recovered_bytes = 1}));
  EXPECT_FALSE(deadline.has_passed(start + 2 * kTimeout, {.ready = 1, .recovered_bytes = 1}));
  EXPECT_FALSE(deadline.has_passed(start + 3 * kTimeout, {.ready = 1, .recovered_bytes = 1}));
  EXPECT_TRUE(deadline.has_passed(start + 3 * kTimeout + 1s, {.ready = 1, .recovered_bytes = 1}));
}

}  // namespace
}  // namespace farside::test
