// amounts.h — how much the contenders of `bench gas` do, and where.
//
// Rank 0 is the requester. The last rank has the page that it gets and puts, and rank 1 is that page's home.
#pragma once

#include <array>
#include <cstdint>

#include "bench/harness/work.h"

namespace farside::bench {

inline constexpr std::array<std::uint64_t, 7> kSizes{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20};
inline constexpr std::uint64_t kLargestBytes = kSizes.back();
inline constexpr std::uint64_t kBytesOfSharedPage = 4 << 10;
inline constexpr std::array<std::uint64_t, 3> kManyPages{64 << 10, 128 << 10, 256 << 10};  ///< in one own

// The array of random access: words, each rank with those that follow each other.
inline constexpr std::uint64_t kElements = 1 << 20;
inline constexpr std::uint64_t kElementsOfPage = 512;
inline constexpr std::uint64_t kGathered = 1024;
inline constexpr std::uint64_t kElementsOfRun = (1 << 20) / sizeof(std::uint64_t);  ///< of contiguous ones: 1 MiB

/// Indices, other ones at each rank (Marsaglia's xorshift).
class RandomIndices {
 public:
  explicit RandomIndices(unsigned rank) : state_(0x9E3779B97F4A7C15U * (rank + 1)) {}

  std::uint64_t below(std::uint64_t count) {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_ % count;
  }

 private:
  std::uint64_t state_;
};

/// Times `make()`, which is made in each round, as many operations as an amount says, until all ranks are done.
template <class Make, class Meet>
Work::Measure each_of_amount(Make make, Meet meet) {
  return [make, meet](std::uint64_t amount, std::uint64_t rounds) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    for (; rounds != 0; --rounds) {
      for (std::uint64_t i = 0; i < amount; ++i) make();
      meet();
    }
    return Nanoseconds(Clock::now() - start) / static_cast<double>(amount);
  };
}

}  // namespace farside::bench
