// time_limits.h — every time limit between a program's read and the file system or node that it waits for.
//
// An operation ends before the timeout of its waiter: the assertions at the end name the pairs for which that must
// hold.
//
// Needs nothing but libc, since the preload library includes it.
#pragma once

#include <chrono>
#include <cstdint>

#include "farside/fabric/time.h"

namespace farside::cache::time_limits {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Between nodes.

/// For a word or a header of a peer: as long as a member may be silent before the team counts it as lost.
inline constexpr Duration kPeer = seconds(2);
/// A peer that owed an answer is left alone for kPeer, twice as long each further time in a row, so long at most.
inline constexpr Duration kMaxPeerPause = minutes(1);
/// A claim of a directory's row that is not confirmed is confirmed by another node. It takes a few round trips: to wait
/// longer for a slow claimer would cost time, to wait less costs nothing but a wrong cell now and then.
inline constexpr Duration kClaim = milliseconds(100);
/// A loader whose cell has not changed for so long is replaced.
inline constexpr Duration kLoadingLease = seconds(5);
/// A load that goes on for longer is not vouched for any more: its lease runs out.
inline constexpr Duration kMaxLoad = minutes(1);
/// For another node that loads the block, before the thread turns to another request and comes back.
inline constexpr Duration kLoadElsewhere = milliseconds(20);

/// For a copy of `bytes` out of a peer's memory: a second, and what they take at 16 MiB/s.
[[nodiscard]] constexpr Duration copy(std::uint64_t bytes) {
  constexpr std::uint64_t kSlowest = 16U << 20U;  // bytes a second
  return seconds(1) + milliseconds(static_cast<std::int64_t>(bytes * 1000 / kSlowest));
}
inline constexpr std::uint64_t kLargestBlock = 64U << 20U;

// In the node, for its host's programs.

/// For a turn to be loaded, while all loads that may go on at once do. No load began or ended for so long: the file
/// system hangs, and nothing waits for it.
inline constexpr Duration kTurn = seconds(5);
/// For an answer, whatever the file system does: then the program is told `busy`.
inline constexpr Duration kAnswer = seconds(7);
/// How often the node looks for requests that are due an answer, and for leases to renew ...
inline constexpr Duration kLook = milliseconds(500);
/// ... which takes so long at most when directory homes are silent.
inline constexpr Duration kRenewal = seconds(1);

// In a program.

/// For the node. One that is silent for so long is stopped, or the machine stands still: it is not slow.
inline constexpr Duration kNode = seconds(10);
/// How often a program that waits looks whether another one has found the node silent, ...
inline constexpr Duration kSilenceLook = seconds(1);
/// ... and one that knows it looks whether it is over.
inline constexpr Duration kSilencePause = seconds(1);
/// A node that others found silent is tried again after so long, by one program, ...
inline constexpr Duration kSilenceRetry = minutes(1);
/// ... for so long.
inline constexpr Duration kRetry = seconds(2);
/// Between looks for the successor of a node that died: at first, and at most.
inline constexpr Duration kMinPause = milliseconds(200);
inline constexpr Duration kMaxPause = minutes(1);

// A wait outlasts what is waited for.
static_assert(kAnswer + kLook + kRenewal < kNode, "a node that runs answers before a program takes it for stopped");
static_assert(kTurn < kAnswer, "what had to wait for its turn may still be loaded");
static_assert(kLoadingLease < kAnswer, "a node that waits for a loader that died may still replace it");
static_assert(kPeer < kLoadingLease, "a cell's home may be silent once before the lease is over");
static_assert(3 * (kLook + kRenewal) <= kLoadingLease, "a lease is renewed in time, also if one look is missed");
static_assert(kClaim < kPeer, "an unconfirmed claim is settled sooner than its home is given up");
static_assert(copy(kLargestBlock) < kAnswer, "the largest block can be copied before the program is told to go on");
static_assert(kRetry < kNode && kSilenceLook < kNode);
static_assert(kLoadElsewhere < kLoadingLease && kLoadingLease < kMaxLoad);

}  // namespace farside::cache::time_limits
