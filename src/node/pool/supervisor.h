// supervisor.h — the process that runs a pool's nodes on one machine: it starts those that do not run yet, starts again
// those that die, and is where they meet.
//
// The nodes outlive it. The next supervisor in the same directory adopts them: each node's process holds a lock
// (node_lock.h) by which it is found, and the coordinator goes on with what the former one had decided
// (team/decision_log.h). A supervisor holds the lock of the directory, so there is one at a time, also while it hangs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "node/files/mount_watch.h"
#include "node/pool/node_lock.h"
#include "node/pool/pool.h"
#include "node/pool/pool_directory.h"
#include "team/coordinator.h"
#include "team/launcher.h"
#include "team/succession/candidacy.h"
#include "team/succession/log_copy.h"

namespace farside::node {

class Supervisor {
 public:
  /// Takes over the nodes of the former one, if the directory has a record of them: prepare_pool left it.
  Supervisor(const PoolDirectory& directory, const PoolOptions& options);

  /// As run_pool.
  int run();

 private:
  void coordinate();
  void stand_for_office();
  void report_dead(team::Rank rank);
  void end_team();
  /// As the nodes find the coordinator.
  [[nodiscard]] std::string way_to_coordinator() const;
  [[nodiscard]] team::Coordinator::Admission admission() const;
  [[nodiscard]] std::vector<team::Rank> own_ranks() const;
  /// And one of them coordinates the pool.
  [[nodiscard]] bool is_on_several_machines() const {
    return options_.authority.empty() && !(options_.listen + options_.join).empty();
  }
  [[nodiscard]] std::vector<team::AdoptedProcess> adopt();
  [[nodiscard]] team::LaunchPlan plan();
  void write_first_record(const team::Launcher& launcher);
  void record_restart(team::Rank rank, pid_t process);
  [[nodiscard]] bool runs(team::Rank rank) const {
    return std::ranges::any_of(running_, [rank](const RunningNode& node) { return node.rank == rank; });
  }
  [[nodiscard]] std::uint32_t restarts_before(team::Rank rank) const;

  const PoolDirectory& directory_;
  const PoolOptions& options_;
  const std::optional<PoolRecord> former_;
  std::vector<RunningNode> running_;
  const bool has_own_secret_;
  const std::filesystem::path secret_;
  SharedMountWatch mount_watch_;
  // At most one of the two: neither, where another machine's process coordinates the pool.
  std::optional<team::Coordinator> coordinator_;
  std::optional<team::Candidacy> candidacy_;
  std::optional<team::LogCopy> log_copy_;  ///< on a machine that joined
  PoolRecord record_;
};

}  // namespace farside::node
