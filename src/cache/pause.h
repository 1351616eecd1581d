// pause.h — waiting for an event without a notification: look, sleep a little longer each time.
//
// Stands alone: every wait of the cache is one of these.
#pragma once

#include <chrono>

#include "farside/fabric/fabric.h"

#include "base/backoff.h"

namespace farside::cache {

class Pause {
 public:
  explicit Pause(Fabric& fabric) : fabric_(fabric) {}

  /// Sleeps, at random up to the present length so that equals do not stay in step. False once the deadline is over.
  [[nodiscard]] bool wait_before(Deadline deadline) {
    if (fabric_.now() >= deadline.at) return false;
    const Duration half = backoff_.next() / 2;
    const std::uint64_t random = fabric_.random() % static_cast<std::uint64_t>(half.count() + 1);
    fabric_.sleep(half + Duration(static_cast<std::int64_t>(random)));
    return true;
  }

 private:
  Fabric& fabric_;
  Backoff<Duration> backoff_{std::chrono::microseconds(4), std::chrono::microseconds(500)};
};

}  // namespace farside::cache
