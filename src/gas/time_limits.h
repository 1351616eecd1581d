// time_limits.h — the time limits of global pages, and the order among them.
#pragma once

#include "farside/fabric/time.h"
#include "farside/gas/page.h"

namespace farside::gas::time_limits {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// For all ranks to come, when global pages are made.
inline constexpr Duration kSetUp = seconds(30);

// An access, at its end:

/// for what is posted, when it is cancelled;
inline constexpr Duration kCancel = seconds(1);
/// for puts that were just given up, beyond their deadline;
inline constexpr Duration kSettle = milliseconds(100);
/// for those that were given up earlier, now and then,
inline constexpr Duration kResettle = milliseconds(10);
/// with these pauses, at first and at most;
inline constexpr Duration kFirstSettlePause = milliseconds(50);
inline constexpr Duration kMaxSettlePause = seconds(1);
/// and for all of them when the access ends.
inline constexpr Duration kPart = seconds(1);

/// For a move to give locks back when its deadline has passed. Where it does not suffice, the lease does.
inline constexpr Duration kUnlock = milliseconds(100);

static_assert(kCancel + kSettle < kDefaultLease,
              "a rank that cancels shows that it gave its puts up before its hold counts as that of a stopped rank");
static_assert(kUnlock < kDefaultLease, "a lock that is given back late is not broken");
static_assert(kResettle < kFirstSettlePause && kFirstSettlePause <= kMaxSettlePause,
              "an access spends most of its time on its own transfers");
static_assert(kDefaultLease < kDefaultCallTimeout, "a call outlasts a rank that stopped with a lock or a hold");
static_assert(kDefaultLease < kSetUp);

}  // namespace farside::gas::time_limits
