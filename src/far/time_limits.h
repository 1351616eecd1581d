// time_limits.h — the time limits of far memory, from a node that does not answer to a program that waits for a page,
// and the order among them.
//
// Needs nothing but libc, since the preload library of far memory includes it.
#pragma once

#include <chrono>
#include <cstdint>

namespace farside::far::time_limits {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// With one node.

/// For a READ, when there is another copy; doubled with each failure in a row.
inline constexpr seconds kRead{1};
/// For a look at a node. After kLooks in a row without an answer it is given up, if that is safe.
inline constexpr milliseconds kLook{600};
inline constexpr std::uint32_t kLooks = 8;
/// Until the user is told that a node does not answer which has the only copy of something.
inline constexpr seconds kNoticeable{1};
/// Between two looks at all nodes.
inline constexpr milliseconds kBetweenLooks{300};
/// Until a node counts as dead by its silence.
inline constexpr milliseconds kGivenUp = kLooks * (kLook + kBetweenLooks);
/// For an answer of a node that failed in some other way.
inline constexpr seconds kAnswer{1};
/// For a slab, at one node, when others may have room.
inline constexpr seconds kTake{2};
/// For giving back a slab that was taken, however late it is.
inline constexpr seconds kGiveBack{1};
/// For reading a node's table when it is linked.
inline constexpr seconds kTable{10};

// In a space.

/// Readers and writers wait while a slab is repaired: first until no access to it is under way, ...
inline constexpr milliseconds kQuiesceTimeout{5};
/// ... then until its copy is complete. A copy that times out has twice as long the next time.
inline constexpr seconds kFirstRepairTimeout{1};
inline constexpr seconds kMaxRepairTimeout{8};
/// For the slabs whose change was not certain, in a round.
inline constexpr seconds kSettle{1};
/// For one round of repairs, after which the nodes are looked at again.
inline constexpr seconds kRepairRound{2};
/// Before slabs that were in use are repaired: at first. Doubled up to kBetweenLinks.
inline constexpr milliseconds kFirstRepairPause{50};
/// For filling a block with zeros: readers of its slab wait.
inline constexpr seconds kFill{1};
/// For linking a node that has come, ...
inline constexpr seconds kLink{2};
/// ... how often that is tried, ...
inline constexpr seconds kBetweenLinks{2};
/// ... and how often with one that took long the last time.
inline constexpr seconds kBetweenSlowLinks{10};
/// For asking each node what it has left.
inline constexpr seconds kUse{5};
/// A sleeper that waits for a slab's lock and was not woken looks for itself.
inline constexpr milliseconds kLockLook{100};
/// For a signal to this process's own threads.
inline constexpr seconds kRing{1};
/// For bringing a slab that is on disk alone back into the pool. It is tried again after twice as long.
inline constexpr seconds kBringBack{2};
/// Between two attempts to write what the disk refused.
inline constexpr milliseconds kDiskRetry{500};

// In a node that lends.

/// For a change of its own table.
inline constexpr seconds kOwnTable{30};
/// For taking the access of clients that parted away, before the next attempt.
inline constexpr seconds kRevoke{1};
/// Between two looks at the table when no client rings.
inline constexpr seconds kRest{1};

// For a program.

/// For a transfer of pages. By then a dead node has been replaced.
inline constexpr seconds kPages{60};
/// A thread that waits for a page's lock, or an evictor that waits for work, and was not woken, looks for itself.
inline constexpr seconds kPageLook{1};
inline constexpr minutes kEvictorLook{1};
/// A thread that waits for a frame looks so often whether a fork has begun, in which no page leaves.
inline constexpr milliseconds kFrameLook{100};
/// For a page to leave, when the space has no room. The program ends then.
inline constexpr minutes kLeave{2};
/// For a parent to say that it has forked.
inline constexpr seconds kFork{60};
/// For a process that parted to end by itself. It is killed then.
inline constexpr seconds kEnd{1};
/// For its end, when the daemon closes.
inline constexpr seconds kClose{10};
/// For the daemon, in a program.
inline constexpr seconds kDaemon{180};

// For a block device.

/// For a request. It fails then.
inline constexpr seconds kDeviceRequest{30};

// A wait outlasts what is waited for.
static_assert(kRead < kGivenUp && kAnswer < kGivenUp, "one late answer costs no node its slabs");
static_assert(kNoticeable < kGivenUp, "the user is told why a program waits before that is over");
static_assert(kGivenUp < kPages, "a node that died is given up while its pages are awaited");
static_assert(kFirstRepairTimeout <= kMaxRepairTimeout && kQuiesceTimeout + kMaxRepairTimeout < kPages,
              "a slab is repaired while its pages are awaited");
static_assert(kSettle <= kRepairRound && kFill <= kRepairRound, "one slab does not take a round's whole time");
static_assert(kGivenUp < kDeviceRequest, "a node that died is given up while a device's request waits");
static_assert(kFirstRepairPause < kBetweenLinks && kQuiesceTimeout < kFirstRepairPause);
static_assert(kPageLook < kPages && kEvictorLook < kLeave, "a wake-up that was missed ends no program");
static_assert(kTake + kAnswer < kPages, "a node without an answer leaves time to take a slab elsewhere");
static_assert(kLink < kBetweenSlowLinks, "the space spends most of its time on nodes that answer");
static_assert(kBringBack < kPages);
static_assert(kPages < kLeave, "a transfer that hangs is tried again before the program ends for want of a frame");
static_assert(kFrameLook < kFork, "a fork is seen before the daemon gives it up");
static_assert(kLeave < kDaemon && kPages < kDaemon && kFork < kDaemon,
              "the daemon's limits pass before a program takes it for dead");
static_assert(kEnd < kClose, "a process is killed before its memory is given up");
static_assert(kLockLook < kRing);

}  // namespace farside::far::time_limits
