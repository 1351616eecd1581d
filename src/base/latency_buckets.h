// latency_buckets.h — a histogram of durations: 8 buckets for each power of two from 1 us to 137 s.
//
// A bucket holds the durations above its lower bound, up to and including its upper bound, as Prometheus's `le` does.
// Its upper bound is at most 1/8 above its lower one, so a percentile is at most 1/8 too high.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace farside::metrics {

inline constexpr unsigned kSmallestBits = 10;  // durations up to 2^10 ns are not told apart ...
inline constexpr unsigned kLargestBits = 37;   // ... and neither are those above 2^37 ns
inline constexpr unsigned kBucketBits = 3;
inline constexpr std::size_t kBuckets = 1 + ((kLargestBits - kSmallestBits) << kBucketBits) + 1;

[[nodiscard]] constexpr std::size_t bucket_of(std::uint64_t nanoseconds) noexcept {
  const std::uint64_t below = nanoseconds - (nanoseconds != 0 ? 1 : 0);  // an upper bound belongs to its bucket
  const auto bits = static_cast<unsigned>(std::bit_width(below));
  if (bits <= kSmallestBits) return 0;
  if (bits > kLargestBits) return kBuckets - 1;
  const unsigned power = bits - 1;
  const std::uint64_t part = below >> (power - kBucketBits) & ((1U << kBucketBits) - 1);
  return 1 + (std::size_t{power - kSmallestBits} << kBucketBits) + part;
}

/// The last bucket has no end: the largest number stands for it.
[[nodiscard]] constexpr std::uint64_t upper_bound_of(std::size_t bucket) noexcept {
  if (bucket == 0) return std::uint64_t{1} << kSmallestBits;
  if (bucket >= kBuckets - 1) return ~std::uint64_t{0};
  const std::size_t power = kSmallestBits + ((bucket - 1) >> kBucketBits);
  const std::uint64_t part = (bucket - 1) & ((1U << kBucketBits) - 1);
  return ((1U << kBucketBits) + part + 1) << (power - kBucketBits);
}

/// The counts of a histogram at one moment.
struct LatencyCounts {
  std::array<std::uint64_t, kBuckets> buckets{};
  std::uint64_t sum_ns = 0;

  [[nodiscard]] std::uint64_t count() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t bucket : buckets) sum += bucket;
    return sum;
  }
  /// Returns the upper bound of the bucket below which the share `q` of all durations lies; 2^37 ns when that is the
  /// last bucket, and 0 when there is no duration.
  [[nodiscard]] std::uint64_t quantile_ns(double q) const noexcept {
    const auto all = static_cast<double>(count());
    if (all == 0) return 0;
    const double wanted = std::max(1.0, std::ceil(q * all));
    std::uint64_t seen = buckets[0];
    std::size_t bucket = 0;
    while (static_cast<double>(seen) < wanted && bucket + 1 < kBuckets) seen += buckets.at(++bucket);
    return std::min(upper_bound_of(bucket), std::uint64_t{1} << kLargestBits);
  }
  LatencyCounts& operator+=(const LatencyCounts& other) noexcept {
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) buckets.at(bucket) += other.buckets.at(bucket);
    sum_ns += other.sum_ns;
    return *this;
  }
};

}  // namespace farside::metrics
