// system_time.h — the wall time of servers and clients: the system's clock.
//
// Stands alone: protocol code may not name a clock.
#pragma once

#include <chrono>

#include "kv/protocol/wall_time.h"

namespace farside::kv {

inline constexpr WallTime kSystemTime{
    .of_system = [] { return Duration(std::chrono::system_clock::now().time_since_epoch()); }};

}  // namespace farside::kv
