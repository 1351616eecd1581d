// time_limits.h — the time limits of a pool's commands and nodes, and the order among those of different modules.
// Stands alone: each module's limits are in one such file.
#pragma once

#include "farside/cache/time_limits.h"

#include "kv/protocol/time_limits.h"
#include "team/time_limits.h"

namespace farside::node::time_limits {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// farside up gives up when no further node became ready, and no more of a journal was read, for so long. A node that
/// lacks other members gives up earlier, after team::time_limits::kSetup.
inline constexpr milliseconds kStart{40'000};
/// For the lock of a pool's directory, which a command that looks holds, or a killed pool that is not gone yet.
inline constexpr milliseconds kLock{1'000};
/// For a node's answer to a command.
inline constexpr milliseconds kStatus{2'000};
/// For the nodes to end by themselves. They are killed then.
inline constexpr milliseconds kEnd{3'000};
/// For the kernel to take their memory back.
inline constexpr milliseconds kKill{20'000};
/// Between two looks at any of these.
inline constexpr milliseconds kLook{20};
/// For other nodes to tell where they serve.
inline constexpr Duration kOthers = seconds(30);
/// For the addresses of nodes that have come back. A client of a service waits.
inline constexpr Duration kLearn = milliseconds(200);
/// For the other server of a partition whose copies are on disks to say what its own has. One that reads a long journal
/// does not answer.
inline constexpr milliseconds kSuccession{10'000};

static_assert(team::time_limits::kSetup < kStart && kOthers < kStart && kv::time_limits::kStandby < kStart &&
                  2 * kSuccession < kStart,
              "a node that lacks another one says which before farside up gives up");
static_assert(team::time_limits::kEnd < kEnd, "the launcher kills nodes that hang before farside down kills it");
static_assert(kLook < kLock && kLook < kStatus && kEnd < kKill);
static_assert(kStatus < farside::cache::time_limits::kNode,
              "a command does not wait for a node that a program would give up");

static_assert(farside::cache::time_limits::kPeer <= team::kMinSilence,
              "a node leaves an unresponsive peer alone at the latest when that counts as lost");

}  // namespace farside::node::time_limits
