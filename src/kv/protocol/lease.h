// lease.h — for how long a session believes a primary after the standby has said that it does not serve, where the
// standby may be unable to reach the readers (docs/protocols/kv_replication.md, "Leases").
//
// Stands alone: a client and a standby agree on it.
#pragma once

#include "farside/fabric/time.h"

namespace farside::kv {

/// By the session's clock, from before it asked.
inline constexpr Duration kLease = std::chrono::seconds(1);

/// By the standby's clock, from when it says something else. Then no lease is left, if of two clocks neither is faster
/// by a fifth.
constexpr Duration outlasting(Duration lease) { return lease + lease / 4; }

}  // namespace farside::kv
