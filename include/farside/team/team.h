// team.h — who takes part, where their memory is, and who is dead.
//
// Ranks 0..size-1 are fixed when the team forms. Each process of a rank has an incarnation: a rank that comes back
// after a death is a new incarnation, with empty memory. The epoch advances whenever somebody dies.
//
// Thread safety: every call, from any thread; allocate and barrier are collective and must be called by all ranks
// in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "farside/fabric/fabric.h"

namespace farside {

using Rank = PeerId;

/// Memory that all ranks allocated together, of one size, at the same offsets.
class SymmetricRegion {
 public:
  SymmetricRegion(std::unique_ptr<Region> local, std::vector<std::unique_ptr<RemoteRegion>> remotes)
      : local_(std::move(local)), remotes_(std::move(remotes)) {}

  [[nodiscard]] const Region& local() const noexcept { return *local_; }
  /// The piece of `rank`, one's own included (the loopback).
  [[nodiscard]] const RemoteRegion& of(Rank rank) const noexcept { return *remotes_[rank]; }

 private:
  std::unique_ptr<Region> local_;
  std::vector<std::unique_ptr<RemoteRegion>> remotes_;  // attached before local_ goes, so destroyed first
};

class Team {
 public:
  virtual ~Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual Rank size() const = 0;
  [[nodiscard]] virtual Fabric& fabric() = 0;

  /// Unique among all processes that ever had this rank in this team.
  [[nodiscard]] virtual std::uint16_t incarnation() const = 0;

  /// Collective. Throws Error when a rank dies or the time-out of set-up (30 s) passes before all have allocated.
  [[nodiscard]] virtual std::unique_ptr<SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) = 0;
  /// Collective; for set-up, not for speed. Ends with peer_lost when a rank is dead.
  virtual Outcome barrier(Deadline deadline) = 0;

  [[nodiscard]] virtual std::uint64_t epoch() const = 0;
  [[nodiscard]] bool alive(Rank rank) { return !fabric().lost(rank); }
  /// Takes `rank`'s access away everywhere on this process and declares it dead to all: the one place for it.
  virtual Outcome evict(Rank rank, Deadline deadline) = 0;

 protected:
  Team() = default;
};

/// Joins the team that this process was started for: by `farside run` or a pool (FARSIDE_COORDINATOR is set), by
/// mpirun or srun (PMIx), or else a team of one. Throws Error when it does not form within 30 s.
[[nodiscard]] std::unique_ptr<Team> join_team();

}  // namespace farside
