// clock.h — the host's monotonic clock as the fabric's time. Every wait's deadline is on it.
#pragma once

#include <chrono>

#include "farside/fabric/time.h"

namespace farside {

[[nodiscard]] inline Time monotonic_now() {
  return {std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

}  // namespace farside
