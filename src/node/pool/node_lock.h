// node_lock.h — which process is a node: the one that holds the lock of the node's file, and has written its pid there.
//
// Nodes outlive their supervisor, and the next one adopts them. A record of pids does not suffice for that: a
// supervisor may be killed when it has started a node and not yet recorded it, and pids are used again. The lock is
// taken before the process is started, which inherits it, and the kernel frees it when the process has ended.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "farside/base/fd.h"
#include "farside/team/team.h"

namespace farside::node {

/// A node that runs.
struct RunningNode {
  team::Rank rank = 0;
  pid_t process = 0;
  Fd pidfd;  ///< of that process
};

/// Returns the lock, open, for the process that is about to be started as that node: it writes its pid there
/// (team/launcher.h). Throws Error when a process holds it.
/// Requires: the caller has the lock of the pool's directory.
[[nodiscard]] Fd claim_node(const std::filesystem::path& file);

/// Returns the process that holds the lock; none when no process does. It is the one that runs now only as long as no
/// other is started: for certain while the caller has the lock of the pool's directory. Throws Error when it cannot be
/// found out.
[[nodiscard]] std::optional<RunningNode> find_node(const std::filesystem::path& file, team::Rank rank);

/// Asks the nodes to end, and kills those that have not after `timeout`; 0: all at once. Returns whether all had ended
/// by then. Throws Error when one does not go away.
bool end_nodes(std::vector<RunningNode> nodes, std::chrono::milliseconds timeout);

}  // namespace farside::node
