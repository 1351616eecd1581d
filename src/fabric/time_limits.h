// time_limits.h — the time limits of the host fabric, and the order among them.
//
// Stands alone: each module has one such table.
#pragma once

#include "farside/fabric/time.h"

namespace farside::fabric::time_limits {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A sleeper that was not woken looks for itself, with exponential backoff up to this: for a plain store, an atomic, or
/// a write that came through a NIC. So much later at most a waiter sees that its peer is lost.
inline constexpr Duration kMaxSleep = milliseconds(100);
/// Between two attempts to find out whether a process lives.
inline constexpr Duration kBetweenLooksAtProcess = milliseconds(10);

// UCX.

/// A link that has failed waits so long for the reason: that its peer is dead, or has refused it. Then it counts as
/// lost alone.
inline constexpr Duration kUntilExplained = milliseconds(250);
/// Between two links to the same peer after one has failed: at first, and at most.
inline constexpr Duration kFirstLinkPause = milliseconds(1);
inline constexpr Duration kMaxLinkPause = milliseconds(200);
/// For WRITEs that were not flushed, at the end of their channel.
inline constexpr Duration kParting = milliseconds(200);
/// For UCX to cancel the operations of a link that ends. Then the channel gets a new worker.
inline constexpr Duration kCancelling = seconds(5);
/// The service thread looks once in this time if no event wakes it, as every wait has a deadline.
inline constexpr Duration kLongSleep = hours(1);

static_assert(kFirstLinkPause <= kMaxLinkPause);
static_assert(kMaxSleep < kUntilExplained, "a waiter that sleeps sees a loss that is reported in time as the reason");
static_assert(kMaxLinkPause < kUntilExplained,
              "the next link is not kept waiting for longer than the reason of a failure");
static_assert(kParting < kCancelling, "a channel that ends gives up its WRITEs before UCX is taken for stuck");

}  // namespace farside::fabric::time_limits
