// contention.h — trying again a write that was refused because another client wrote at the same time.
//
// Stands alone: tables and the Redis server write again in the same way.
#pragma once

#include <chrono>
#include <random>
#include <thread>

#include "base/backoff.h"

namespace farside::kv {

class Contention {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Contention(std::chrono::nanoseconds time_out) : Contention(Clock::now(), time_out) {}

  /// After a pause, ever longer and a random part of it: of two that refuse each other one is alone at last. False: the
  /// time is over.
  [[nodiscard]] bool try_again() {
    if (Clock::now() >= end_) return false;
    const std::chrono::microseconds pause(random_() % static_cast<unsigned>(backoff_.next().count()));
    if (pause.count() != 0) std::this_thread::sleep_for(pause);
    return true;
  }

 private:
  Contention(Clock::time_point now, std::chrono::nanoseconds time_out)
      : end_(now + time_out), random_(static_cast<unsigned>(now.time_since_epoch().count())) {}

  const Clock::time_point end_;
  Backoff<std::chrono::microseconds> backoff_{std::chrono::microseconds(1), std::chrono::milliseconds(1)};
  std::minstd_rand random_;  // to the nanosecond no two begin together
};

}  // namespace farside::kv
