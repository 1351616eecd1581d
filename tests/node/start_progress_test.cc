// How long farside up waits for nodes that recover from their journals.
#include <chrono>

#include <gtest/gtest.h>

#include "node/pool/pool.h"

namespace farside::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kNoProgress = 40s;

TEST(ProgressDeadline, PassesWhenNothingHappens) {
  const node::ProgressDeadline::Clock::time_point start{};
  node::ProgressDeadline deadline(kNoProgress, start);
  EXPECT_FALSE(deadline.has_passed(start + kNoProgress, {}));
  EXPECT_TRUE(deadline.has_passed(start + kNoProgress + 1s, {}));
}

TEST(ProgressDeadline, MovesOnWhileJournalsAreReadAndNodesBecomeReady) {
  const node::ProgressDeadline::Clock::time_point start{};
  node::ProgressDeadline deadline(kNoProgress, start);
  EXPECT_FALSE(deadline.has_passed(start + kNoProgress, {.ready = 0, .recovered_bytes = 1}));
  EXPECT_FALSE(deadline.has_passed(start + 2 * kNoProgress, {.ready = 1, .recovered_bytes = 1}));
  EXPECT_FALSE(deadline.has_passed(start + 3 * kNoProgress, {.ready = 1, .recovered_bytes = 1}));
  EXPECT_TRUE(deadline.has_passed(start + 3 * kNoProgress + 1s, {.ready = 1, .recovered_bytes = 1}));
}

}  // namespace
}  // namespace farside::test
