// team.h — the members of a team, where their memory is, and which of them are dead.
//
// Ranks 0..size-1 are fixed when the team forms. Each process of a rank has an incarnation: a rank that comes back
// after a death is a new incarnation, with empty memory. The epoch advances whenever a member dies or comes back.
//
// A process that comes back calls join_team as at the start, then repeats the allocations of the team in the same
// order, and is back with the last of them: alive to the others, its memory in the place of its predecessor's. Until
// then it is lost to them, but may use their memory. What the team has freed it cannot allocate. (Not under PMIx: such
// jobs end as a whole.)
//
// Thread safety: every call, from any thread; allocate and barrier are collective and must be called by all ranks
// in the same order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "farside/fabric/fabric.h"

namespace farside::team {

using Rank = PeerId;

/// A region at each rank. When a rank comes back its new memory takes the place of the old, which leads nowhere any
/// more (peer_lost) but stays where it is: a thread that looked it up before may be using it.
class Pieces {
 public:
  explicit Pieces(std::vector<std::unique_ptr<RemoteRegion>> by_rank) : current_(by_rank.size()) {
    for (Rank rank = 0; rank < current_.size(); ++rank) replace(rank, std::move(by_rank[rank]));
  }

  [[nodiscard]] const RemoteRegion& of(Rank rank) const noexcept {
    return *current_[rank].load(std::memory_order_acquire);
  }
  /// By one thread at a time, whatever others do meanwhile.
  void replace(Rank rank, std::unique_ptr<RemoteRegion> piece) {
    current_[rank].store(piece.get(), std::memory_order_release);
    all_.push_back(std::move(piece));
  }

 private:
  std::vector<std::unique_ptr<RemoteRegion>> all_;
  std::vector<std::atomic<const RemoteRegion*>> current_;
};

/// Memory that all ranks allocated together, of one size, at the same offsets.
class SymmetricRegion {
 public:
  SymmetricRegion(std::unique_ptr<Region> local, std::shared_ptr<Pieces> pieces)
      : local_(std::move(local)), pieces_(std::move(pieces)) {}

  [[nodiscard]] const Region& local() const noexcept { return *local_; }
  /// The piece of `rank`, one's own included (the loopback). Valid as long as this is; ask again for each operation.
  [[nodiscard]] const RemoteRegion& of(Rank rank) const noexcept { return pieces_->of(rank); }

 private:
  std::unique_ptr<Region> local_;
  std::shared_ptr<Pieces> pieces_;  // attached before local_ goes, so destroyed first; the team knows it, too
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

  /// Collective. Throws Error when a rank is lost or the time-out of set-up (30 s) passes before all have allocated.
  [[nodiscard]] virtual std::unique_ptr<SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) = 0;
  /// Collective; for set-up, not for speed. Ends with peer_lost when a rank is dead, and when one was lost or came back
  /// since another one called it. A barrier never counts both a rank's old process and its new one.
  virtual Outcome barrier(Deadline deadline) = 0;

  [[nodiscard]] virtual std::uint64_t epoch() const = 0;
  [[nodiscard]] bool alive(Rank rank) { return !fabric().lost(rank); }
  /// Returns whether a process of `rank` has died, even if a new one has come back since. The kernel decides that for
  /// members on this host, the coordinator for others. A member that this process merely does not reach has not died,
  /// and none has when this process was cut off itself. So of two members never both are told that the other one has
  /// died, unless both have.
  [[nodiscard]] virtual bool has_died(Rank rank) { return !alive(rank); }
  /// The same of the process that had this incarnation of `rank`, also if that was before this process came.
  [[nodiscard]] virtual bool has_died(Rank rank, std::uint16_t /*incarnation*/) { return has_died(rank); }
  /// Returns whether the last process of `rank` has died, in that sense, and no other has come: also if it died before
  /// this process came.
  [[nodiscard]] virtual bool is_vacant(Rank rank) { return has_died(rank); }
  /// Returns whether this process may go on without the process that `rank` has, or had last: it has died, or this
  /// process has evicted it under PMIx, where no decision follows. One that merely counts as lost here may be well, and
  /// have cut this process off.
  [[nodiscard]] virtual bool is_out(Rank rank) { return has_died(rank); }
  /// Declares the process that has `rank` by now dead, and revokes all its access to this process: the one place for
  /// it.
  ///
  /// Guarantees, on done: `rank` is lost here, and nothing of it lands in this process's memory any more. A process on
  /// this host was killed. One on another host lives on. The others are told, and revoke its access as well, where the
  /// launcher can tell them: `farside run` and pools do, soon after; under PMIx (mpirun, srun) neither the others nor
  /// the evicted process are told, and it continues to reach them.
  virtual Outcome evict(Rank rank, Deadline deadline) = 0;
  /// Returns whether deaths on other hosts are noticed, and ranks come back: false while the coordinator of a pool on
  /// several machines hangs, is gone, or cannot be reached. This process goes on meanwhile.
  [[nodiscard]] virtual bool has_coordinator() const { return true; }
  /// Returns the longest until an unresponsive member of another host is lost, which the coordinator chooses. 0 where
  /// no process decides that: on one host, and under PMIx.
  [[nodiscard]] virtual std::chrono::milliseconds longest_silence() const { return {}; }
  /// Has `handler` called when this process is cut off, or at once if it was: the others took it for dead, or the
  /// coordinator has ended the team. Members on other hosts count as lost then; only a new process comes back to them.
  /// Once, on a thread of the team's, which it must not hold up.
  virtual void on_cut_off(const std::function<void()>& /*handler*/) {}

 protected:
  Team() = default;
};

/// Joins the team that this process was started for: by `farside run` or a pool (FARSIDE_COORDINATOR is set), by
/// mpirun or srun (PMIx), or else a team of one. Throws Error when it does not form within 30 s.
[[nodiscard]] std::unique_ptr<Team> join_team();

}  // namespace farside::team
