// amounts.h — how much the contenders of `bench comm` do.
#pragma once

#include <cstdint>

#include "bench/harness/work.h"

namespace farside::bench {

inline constexpr std::uint64_t kLargestBytes = std::uint64_t{4} << 20;
inline constexpr std::uint64_t kStreamBytes = 8;  ///< of what is sent one after the other
inline constexpr std::uint64_t kStreamedBytes =
    std::uint64_t{64} << 20;  ///< that each thread reads, writes or copies: more than caches hold

/// About half a millisecond of arithmetic.
inline void compute() {
  static volatile std::uint64_t result = 0;  // so that it is not left out
  std::uint64_t value = result;
  for (int step = 0; step < 400'000; ++step) value = value * 6364136223846793005U + 1442695040888963407U;
  result = value;
}

}  // namespace farside::bench
