// pool.h — the pool on this machine: a supervisor process, which is where the nodes meet, and the nodes.
//
// When a node dies the others go on, and the supervisor starts it again (RestartPolicy in team/launcher.h): it comes
// back empty. When the supervisor dies the nodes go on, and the next one takes them over (supervisor.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file_lock.h"
#include "node/pool/pool_directory.h"
#include "node/socket_client.h"
#include "team/liveness.h"

namespace farside::node {

/// A pool, or the part of one that is on this machine.
struct PoolOptions {
  team::Rank nodes = 1;  ///< on this machine: ranks first_rank, first_rank + 1, ...
  team::Rank first_rank = 0;
  team::Rank all_nodes = 1;  ///< on all machines
  cache::CacheOptions cache;
  std::uint64_t kv_bytes = 0;       ///< of each node, for keys and values; 0: none
  std::uint32_t kv_copies = 1;      ///< of all keys and values, each on a node of its own: 1 or 2
  std::uint32_t kv_min_copies = 1;  ///< with fewer a write is refused
  std::uint64_t kv_copy_rate = 0;   ///< at which a copy is made again, in bytes per second; 0: as fast as it goes
  std::string kv_dir;               ///< where their journals are; empty: there are none
  std::string kv_sync;              ///< always, everysec or no
  std::uint64_t far_bytes = 0;      ///< that each node lends; 0: none
  std::string metrics;              ///< where node 0 would serve them, the others as many ports above; empty: nowhere
  // A pool on several machines only. Addresses are "host:port".
  std::string listen;            ///< on the first machine: where the nodes meet
  std::string join;              ///< on the others: the same
  std::string authority;         ///< in etcd, and `listen` is where they meet when this machine's process coordinates
  std::filesystem::path secret;  ///< the same on all of them
  /// With `listen`: how long an unresponsive node of another machine is waited for (team/liveness.h).
  std::chrono::milliseconds silence = team::kDefaultSilence;
};

/// The memory for each node when the user does not say: 1 GiB, or less where memory is small.
[[nodiscard]] std::uint64_t default_cache_bytes(team::Rank nodes, std::uint64_t block_bytes);

/// That of the nodes that run in `directory`: with less memory free, another one would be usual for them now. Nothing
/// when none runs.
[[nodiscard]] std::optional<std::uint64_t> cache_bytes_of_running_nodes(const PoolDirectory& directory);

/// The right to start a pool in `directory`, or to take over the nodes that run there without a supervisor. Throws
/// UsageError on options that cannot be, Error when a pool runs there already, the nodes have other options, or there
/// is not memory enough. Removes what a killed pool left, and logs that; keeps the last pool's log.
[[nodiscard]] FileLock prepare_pool(const PoolDirectory& directory, const PoolOptions& options);

/// Runs the pool in this process until SIGTERM or SIGINT, or until no node is left. The caller holds what prepare_pool
/// gave it. Returns 0, or the exit code of the first node that failed for good, as a shell gives it.
[[nodiscard]] int run_pool(const PoolDirectory& directory, const PoolOptions& options);

struct StartProgress {
  team::Rank ready = 0;               ///< nodes on this machine
  std::uint64_t recovered_bytes = 0;  ///< that have been read of the nodes' journals

  friend bool operator==(const StartProgress&, const StartProgress&) = default;
};

/// A deadline that moves on as long as there is progress.
class ProgressDeadline {
 public:
  using Clock = std::chrono::steady_clock;

  ProgressDeadline(Clock::duration timeout, Clock::time_point now) : timeout_(timeout), passes_(now + timeout) {}

  /// Returns whether `progress` has been the same for longer than the timeout.
  [[nodiscard]] bool has_passed(Clock::time_point now, const StartProgress& progress) {
    if (progress != std::exchange(last_, progress)) passes_ = now + timeout_;
    return now > passes_;
  }

 private:
  const Clock::duration timeout_;
  Clock::time_point passes_;
  StartProgress last_;
};

/// Runs the pool in the background; returns when all nodes are ready, and calls `show` meanwhile. Throws Error, with
/// what the nodes said, when one fails or there is no progress for time_limits::kStart; nothing is left then. Nor is it
/// when a signal such as Ctrl-C comes meanwhile: it then ends this process as it always does. A pool that takes over
/// nodes is left as it is in either case.
void start_pool(const PoolDirectory& directory, const PoolOptions& options, FileLock lock,
                const std::function<void(const StartProgress&)>& show);

struct NodeStatus {
  PoolRecord::Node node;
  SocketStatus socket;
  bool is_running;  ///< its process
};

struct PoolStatus {
  PoolRecord record;
  std::vector<NodeStatus> nodes;  ///< of this machine
  bool has_supervisor = true;     ///< false: the nodes have outlived it

  /// Returns the nodes of other machines that are lost to one of this machine's; those know it within some seconds.
  /// Nothing is known of them while none of this machine's answers.
  [[nodiscard]] std::set<team::Rank> lost_elsewhere() const;
  /// Returns whether a node of this machine has lost the coordinator.
  [[nodiscard]] bool lacks_coordinator() const;
};

/// Throws Error when no pool is running.
[[nodiscard]] PoolStatus pool_status(const PoolDirectory& directory);

/// The same, once the nodes of all machines are up, or as it is after `timeout`. Throws Error when no pool is running
/// then.
[[nodiscard]] PoolStatus pool_status_when_up(const PoolDirectory& directory, std::chrono::milliseconds timeout);

enum class [[nodiscard]] PoolEnd : std::uint8_t{
    ended,     ///< by itself
    killed,    ///< it did not end in time
    leftover,  ///< it had been killed before; what it left was removed
};

/// Returns when nothing is left of the pool. Throws Error when none is running.
PoolEnd end_pool(const PoolDirectory& directory);

}  // namespace farside::node
