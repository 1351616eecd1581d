// pause.h — waiting for an event without a notification: look, sleep a little longer each time.
//
// Stands alone: every wait of the cache is one of these.
#pragma once

#include <algorithm>
#include <chrono>

#include "farside/fabric/fabric.h"

namespace farside {

class Pause {
 public:
  explicit Pause(Fabric& fabric) : fabric_(fabric) {}

  /// Sleeps, at random up to the present length so that equals do not stay in step. False once the deadline is over.
  [[nodiscard]] bool wait_before(Deadline deadline) {
    if (fabric_.now() >= deadline.at) return false;
    fabric_.sleep(length_ / 2 + Duration(static_cast<std::int64_t>(
                                    fabric_.random() % static_cast<std::uint64_t>(length_.count() / 2 + 1))));
    length_ = std::min<Duration>(length_ * 2, kMax);
    return true;
  }

 private:
  static constexpr Duration kMax = std::chrono::microseconds(500);

  Fabric& fabric_;
  Duration length_ = std::chrono::microseconds(4);
};

}  // namespace farside
