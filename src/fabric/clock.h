// clock.h — the host's monotonic clock as the fabric's time. Every wait's deadline is on it.
//
// Stands alone: both adapters tell time by it.
#pragma once

#include <chrono>
#include <ctime>

#include "farside/fabric/time.h"

namespace farside {

[[nodiscard]] inline Time monotonic_now() {
  return {std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

/// As of the last tick of the machine's clock: some loads, which wait for nothing.
[[nodiscard]] inline Time last_tick() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return {std::chrono::nanoseconds(std::chrono::seconds(time.tv_sec)).count() + time.tv_nsec};
}

}  // namespace farside
