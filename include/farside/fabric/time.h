// time.h — the fabric's time. Protocol code has no other clock, so that the simulator can lend it a virtual one.
#pragma once

#include <chrono>
#include <cstdint>

namespace farside {

using Duration = std::chrono::nanoseconds;

/// A moment on one process's own clock. Clocks of two processes are never compared.
struct Time {
  std::int64_t nanoseconds = 0;

  friend auto operator<=>(Time, Time) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 trips over <=>
  friend Time operator+(Time time, Duration by) { return {time.nanoseconds + by.count()}; }
  friend Duration operator-(Time to, Time from) { return Duration(to.nanoseconds - from.nanoseconds); }
};

/// When a wait gives up. There is no "never": every wait has one.
struct Deadline {
  Time at;
};

}  // namespace farside
