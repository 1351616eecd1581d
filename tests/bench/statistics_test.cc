// What the harness says of repeated measurements.
#include "bench/harness/statistics.h"

#include <gtest/gtest.h>

namespace farside::bench {
namespace {

// One wild repetition must move neither the median nor the quartiles far: the machine is shared.
TEST(Statistics, SummaryStandsOneWildRepetition) {
  const Summary calm = summarize({10, 11, 12, 13, 14});
  const Summary disturbed = summarize({10, 11, 12, 13, 1e9});
  EXPECT_EQ(calm.median, 12);
  EXPECT_EQ(disturbed.median, calm.median);
  EXPECT_EQ(disturbed.low, calm.low);
  EXPECT_EQ(disturbed.high, calm.high);
}

// Quartiles and percentiles lie between neighbours; the order in which repetitions came does not matter.
TEST(Statistics, QuantilesInterpolateBetweenNeighbours) {
  const Summary summary = summarize({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(summary.low, 1.75);
  EXPECT_DOUBLE_EQ(summary.median, 2.5);
  EXPECT_DOUBLE_EQ(summary.high, 3.25);
  EXPECT_DOUBLE_EQ(summary.spread(), 0.6);
  EXPECT_EQ(summarize({7}).high, 7);
}

TEST(Statistics, NothingMeasuredIsRefused) { EXPECT_THROW(static_cast<void>(summarize({})), std::invalid_argument); }

// Above 1 means ours is better, for times and for bandwidths alike.
TEST(Statistics, SpeedupPointsTheSameWayForEveryUnit) {
  const std::vector<double> ones{1, 1, 1};
  const std::vector<double> twos{2, 2, 2};
  EXPECT_DOUBLE_EQ(speedup(ones, twos, Better::lower), 2);
  EXPECT_DOUBLE_EQ(speedup(ones, twos, Better::higher), 0.5);
}

// A disturbance that covers one whole repetition slows both halves of it and leaves the speedup alone.
TEST(Statistics, SpeedupIgnoresWhatSlowsBothAlike) {
  const std::vector<double> ours{1, 50, 1};
  const std::vector<double> baseline{3, 150, 3};
  EXPECT_DOUBLE_EQ(speedup(ours, baseline, Better::lower), 3);
}

TEST(Statistics, SpeedupWantsAsManyRepetitionsOfBoth) {
  EXPECT_THROW(static_cast<void>(speedup(std::vector<double>{1}, std::vector<double>{1, 2}, Better::lower)),
               std::invalid_argument);
}

}  // namespace
}  // namespace farside::bench
