// Which times a session's clock follows.
#include "kv/protocol/timestamp.h"

#include <memory>

#include <gtest/gtest.h>

namespace farside::kv {
namespace {

class AHybridClock : public testing::Test {
 protected:
  std::unique_ptr<Fabric> fabric_ = make_host_fabric({.mode = FabricMode::direct});
  HybridClock clock_{*fabric_, 7, {}};
};

TEST_F(AHybridClock, IsNeverBehindWhatItHasSeen) {
  const Timestamp first = clock_.next();
  EXPECT_EQ(first.session, 7U);
  clock_.observe({.time = kLatestTime - 2, .session = 8});
  EXPECT_EQ(clock_.next().time, kLatestTime - 1);
  clock_.observe(first);
  EXPECT_EQ(clock_.next().time, kLatestTime);
}

// Records are READ from other processes' memory. After the last number a clock would begin again, behind all that is
// there: the session's puts would be refused from then on.
TEST_F(AHybridClock, FollowsNoTimeThatCannotBe) {
  for (const std::uint64_t time : {kLatestTime + 1, ~std::uint64_t{0}}) {
    const Timestamp before = clock_.next();
    clock_.observe({.time = time, .session = 8});
    const Timestamp after = clock_.next();
    EXPECT_GT(after.time, before.time) << "it began again";
    EXPECT_LT(after.time, kLatestTime) << "it followed " << time;
  }
}

}  // namespace
}  // namespace farside::kv
