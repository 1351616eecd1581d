// lease.h — between hosts: how long a session may accept what it reads from a primary after the standby answered that
// it does not serve (docs/protocols/kv_replication.md, "Leases").
//
// Stands alone: a client and a standby must have the same value, which no message carries. When it changes,
// kTeamProtocol does (net/handshake.h).
#pragma once

#include "farside/fabric/time.h"

namespace farside::kv {

/// By the session's clock, from before it asked. Homes::has_lease gives the READ that renews it a quarter of it at
/// first. docs/protocols/kv_replication.md, "Leases", has these times in figures.
inline constexpr Duration kLease = std::chrono::milliseconds(200);

/// By the standby's clock, from when it says something else. Then no lease is left, if of two clocks neither is faster
/// by a fifth.
constexpr Duration outlasting(Duration lease) { return lease + lease / 4; }

}  // namespace farside::kv
