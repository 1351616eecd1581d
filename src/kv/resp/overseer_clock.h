// overseer_clock.h — the clock by which an overseer decides that a call takes long.
//
// Stands alone: in tests time passes from one of its looks to the next.
#pragma once

#include <chrono>

namespace farside::kv {

class OverseerClock {
 public:
  using Clock = std::chrono::steady_clock;

  OverseerClock() = default;
  OverseerClock(const OverseerClock&) = delete;
  OverseerClock& operator=(const OverseerClock&) = delete;
  virtual ~OverseerClock() = default;

  // Thread safety: any thread.

  [[nodiscard]] virtual Clock::time_point now() const { return Clock::now(); }
  /// Returns for how long the overseer is to sleep, that `duration` passes on this clock.
  [[nodiscard]] virtual Clock::duration sleep_for(Clock::duration duration) { return duration; }
};

}  // namespace farside::kv
