#include "base/latency_buckets.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace farside::metrics {
namespace {

// As Prometheus's `le`: a bucket has its upper bound, and the next one begins just above.
TEST(LatencyBuckets, EachHasItsUpperBoundAndNothingAbove) {
  for (std::size_t bucket = 0; bucket + 1 < kBuckets; ++bucket) {
    const std::uint64_t bound = upper_bound_of(bucket);
    EXPECT_EQ(bucket_of(bound), bucket);
    EXPECT_EQ(bucket_of(bound + 1), bucket + 1);
  }
}

TEST(LatencyBuckets, AreAnEighthWideAtMost) {
  for (std::size_t bucket = 1; bucket + 1 < kBuckets; ++bucket) {
    const std::uint64_t below = upper_bound_of(bucket - 1);
    EXPECT_LT(below, upper_bound_of(bucket));
    EXPECT_LE(upper_bound_of(bucket) - below, below / 8);
  }
}

TEST(LatencyBuckets, SpanFromAMicrosecondToTwoMinutes) {
  EXPECT_EQ(bucket_of(0), 0U);
  EXPECT_EQ(bucket_of(1024), 0U);
  EXPECT_EQ(upper_bound_of(kBuckets - 2), std::uint64_t{1} << 37U);
  EXPECT_EQ(bucket_of(~std::uint64_t{0}), kBuckets - 1);
  EXPECT_EQ(kBuckets, 218U);
}

TEST(LatencyCounts, GiveTheBucketOfAQuantile) {
  LatencyCounts counts;
  EXPECT_EQ(counts.quantile_ns(0.5), 0U);
  for (std::uint64_t us = 1; us <= 1000; ++us) ++counts.buckets[bucket_of(1000 * us)];
  for (const auto& [q, exact_ns] : {std::pair{0.5, 500'000U}, {0.99, 990'000U}, {1.0, 1'000'000U}, {0.0, 1000U}}) {
    EXPECT_EQ(counts.quantile_ns(q), upper_bound_of(bucket_of(exact_ns))) << q;
  }
  EXPECT_EQ(counts.count(), 1000U);
}

TEST(LatencyCounts, KnowNoQuantileBeyondTheLargestBound) {
  LatencyCounts counts;
  ++counts.buckets[kBuckets - 1];
  EXPECT_EQ(counts.quantile_ns(0.5), std::uint64_t{1} << 37U);
}

TEST(LatencyCounts, AreSummed) {
  LatencyCounts one;
  one.buckets[3] = 1;
  one.sum_ns = 5;
  LatencyCounts two;
  two.buckets[3] = 2;
  two.sum_ns = 7;
  one += two;
  EXPECT_EQ(one.buckets[3], 3U);
  EXPECT_EQ(one.sum_ns, 12U);
}

}  // namespace
}  // namespace farside::metrics
