// clock.h — the time, as cheaply as it can be had. Stands alone: parts need it that need nothing else of each other.
#pragma once

#include <cstdint>
#include <ctime>

namespace farside::cache_preload {

/// CLOCK_MONOTONIC_COARSE: a few ns to read, as fine as the kernel's tick.
[[nodiscard]] inline std::uint64_t coarse_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace farside::cache_preload
