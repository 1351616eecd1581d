// wall_time.h — wall time, which expiry is compared with and timestamps follow.
//
// Stands alone: timestamps, stores and sessions take it from their owner.
#pragma once

#include <cstdint>

#include "farside/fabric/fabric.h"

namespace farside::kv {

struct WallTime {
  Duration ahead{};                   ///< of the fabric's clock, where that stands for the system's: simulations, tests
  Duration (*of_system)() = nullptr;  ///< since 1970; read anew by each call, as it may be set at any moment

  /// Returns nanoseconds since 1970.
  [[nodiscard]] std::uint64_t now_ns(const Fabric& fabric) const {
    const Duration now = of_system != nullptr ? of_system() : Duration(fabric.now().nanoseconds) + ahead;
    return static_cast<std::uint64_t>(now.count());
  }
};

}  // namespace farside::kv
