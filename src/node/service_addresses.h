// service_addresses.h — where each node of a pool serves something: sockets in the pool's directory, or, of a pool on
// several machines, ports that the nodes tell one another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "farside/team/team.h"

#include "base/mutex.h"
#include "net/secret.h"
#include "node/pool/pool_directory.h"

namespace farside::node {

/// That of the pool whose node this process is. Throws Error when it is none.
[[nodiscard]] net::Secret pool_secret();

class ServiceAddresses {
 public:
  /// Collective. Of a pool on several machines, `service` is on port `first_port` above that of the coordinator, plus
  /// the rank. Throws Error when a node does not tell that lives.
  ServiceAddresses(const PoolDirectory& pool, team::Team& team, std::string_view service, unsigned first_port);

  [[nodiscard]] bool on_several_machines() const noexcept { return told_ != nullptr; }
  /// Returns them by rank; empty: it has not told since this process came. Reads those of ranks that have come back
  /// since the last call, for at most time_limits::kLearn. Thread safety: any thread.
  [[nodiscard]] std::vector<std::string> all() const;
  /// The addresses on which this node is to listen.
  [[nodiscard]] const std::vector<std::string>& own() const noexcept { return own_; }

 private:
  /// None: it has not told it, or could not be asked.
  [[nodiscard]] std::optional<std::string> told_by(team::Rank rank, Channel& channel, Deadline deadline) const;
  [[nodiscard]] std::string await(team::Rank rank) const;

  team::Team& team_;
  std::vector<std::string> own_;
  std::unique_ptr<team::SymmetricRegion> told_;  ///< of each rank its own, for the others; null on one machine
  mutable Mutex mutex_;
  mutable std::vector<std::string> all_ GUARDED_BY(mutex_);
  mutable std::uint64_t epoch_ GUARDED_BY(mutex_) = 0;  ///< of the team, when all of them were known
};

}  // namespace farside::node
