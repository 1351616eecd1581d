// pool_directory.h — a pool's files on this machine, all in the runtime directory. One pool runs in it at a time.
//
//   pool.json          which processes it is, and with which options
//   pool.log           what they have said, unless the pool runs in the foreground; it stays after the pool's end
//   pool.log.1         what those of the pool before have said
//   coordinator.sock   where the nodes meet
//   secret             what they prove to know (mode 0600)
//   decisions          those of the coordinator of a pool on several machines (team/decision_log.h)
//   decisions-here     those of a pool on this machine alone
//   node-<rank>.lock   which the node's process holds (node_lock.h)
//   node-<rank>.sock   the nodes' sockets
//   node-<rank>.sock.silent   made by a program that the node does not answer (farside/cache/node_socket.h)
//   kv-<rank>.sock     the key-value servers
//   kv-<rank>.sock.recovered   how much of its journal a key-value server that is starting has read
//   far-<rank>.sock    the node's service of far memory
//   kv-<rank>-standby.sock   and the standby of each
//
// The process that runs a pool, its supervisor, holds a lock (flock) on the directory itself, so the kernel says
// whether one runs: a lock dies with its holder. What lies there unlocked was left by a pool that was killed, or is
// that of nodes that have outlived their supervisor.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "farside/cache/cache.h"

#include "base/file_lock.h"
#include "node/pool/node_lock.h"

namespace farside::node {

/// The content of pool.json.
struct PoolRecord {
  struct Node {
    team::Rank rank = 0;
    pid_t process = 0;
    std::uint32_t restarts = 0;  ///< how often it died and was started again
  };

  pid_t supervisor = 0;
  std::uint64_t supervisor_started = 0;  ///< as in ProcessId
  std::string options{};                 ///< those that a process has to have which takes over the nodes
  std::string meeting{};                 ///< where the nodes meet
  std::vector<Node> nodes;               ///< those on this machine
  std::uint64_t cache_bytes = 0;
  std::uint64_t block_bytes = 0;
  std::uint32_t groups = 1;
  std::uint64_t kv_bytes = 0;  ///< of each node; 0: no key-value store
  std::uint32_t kv_copies = 1;
  std::uint64_t far_bytes = 0;  ///< that each node lends; 0: none
};

class PoolDirectory {
 public:
  explicit PoolDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path log() const { return path_ / "pool.log"; }
  [[nodiscard]] std::filesystem::path coordinator() const { return path_ / "coordinator.sock"; }
  /// The decisions of the coordinator of a pool on several machines (team/decision_log.h).
  [[nodiscard]] std::filesystem::path decisions() const { return path_ / "decisions"; }
  /// Those of a pool on this machine alone, which is of no use when no node runs.
  [[nodiscard]] std::filesystem::path own_decisions() const { return path_ / "decisions-here"; }
  /// A copy of the former, on the other machines (team/succession/log_copy.h).
  [[nodiscard]] std::filesystem::path decisions_copy() const { return path_ / "decisions.copy"; }
  /// Has the address of the coordinator of a pool on several machines: its nodes read it whenever they look for that.
  [[nodiscard]] std::filesystem::path meeting() const { return path_ / "meeting"; }
  /// The directory of a coordinator that was started from a copy (rebuilt_authority.h), and its lock.
  [[nodiscard]] std::filesystem::path authority() const { return path_ / "authority"; }
  /// The right to run that; nothing when a process does. Makes the directory.
  [[nodiscard]] std::optional<FileLock> lock_authority() const;
  [[nodiscard]] bool runs_authority() const { return std::filesystem::exists(authority()) && !lock_authority(); }
  [[nodiscard]] std::filesystem::path secret() const { return path_ / "secret"; }
  [[nodiscard]] std::filesystem::path node_socket(team::Rank rank) const;
  [[nodiscard]] std::filesystem::path node_lock(team::Rank rank) const;

  /// The lock, held as long as the descriptor (or a copy that a fork made) is open; nothing when a pool runs here.
  [[nodiscard]] std::optional<FileLock> try_lock() const;
  /// The same, if it is free within `timeout`.
  [[nodiscard]] std::optional<FileLock> lock_within(std::chrono::milliseconds timeout) const;
  /// Whether that lock is held. Any number of processes may ask at once.
  [[nodiscard]] bool is_locked() const;

  /// Replaces the record as a whole. Throws Error when that fails: the former one is as it was.
  void write_record(const PoolRecord& record) const;
  /// Nothing when there is none. Throws Error when it cannot be read.
  [[nodiscard]] std::optional<PoolRecord> read_record() const;

  /// Has the nodes of this machine look for the coordinator at `address` from now on. Throws Error when that fails.
  void write_meeting(const std::string& address) const;

  /// Records how much of its journal the key-value server of `rank` has read. Throws Error when that fails.
  void write_recovered(team::Rank rank, std::uint64_t bytes) const;
  /// 0: it has recorded nothing.
  [[nodiscard]] std::uint64_t read_recovered(team::Rank rank) const;

  /// Returns the nodes whose processes run, whether or not a supervisor does, by rank (find_node).
  [[nodiscard]] std::vector<RunningNode> running_nodes() const;

  /// Removes the files of a pool, but a log in which something is, and the decisions of one on several machines.
  /// Returns whether there were any. Requires: the caller holds the lock, and no node runs.
  [[nodiscard]] bool clean() const;
  /// Removes the decisions, so that the next pool here is a new one. Returns whether there were any.
  [[nodiscard]] bool forget_team() const;
  /// Removes the copy of another machine's: the pool was ended in order.
  void forget_copy() const;
  /// Makes the log, if there is one, that of the pool before.
  void keep_log() const;
  void drop_log() const;

 private:
  [[nodiscard]] std::optional<FileLock> try_lock_as(FileLock::Kind kind) const;
  [[nodiscard]] std::filesystem::path record() const { return path_ / "pool.json"; }
  [[nodiscard]] std::filesystem::path recovered(team::Rank rank) const;

  std::filesystem::path path_;
};

}  // namespace farside::node
