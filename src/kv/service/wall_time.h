// wall_time.h — what must be added to a fabric's time to have wall time, which expiry is compared with.
#pragma once

#include <chrono>

#include "farside/fabric/fabric.h"

namespace farside::kv {

[[nodiscard]] inline Duration wall_ahead_of(const Fabric& fabric) {
  const Duration wall = std::chrono::system_clock::now().time_since_epoch();
  return wall - Duration(fabric.now().nanoseconds);
}

}  // namespace farside::kv
