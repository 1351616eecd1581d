// barrier.h — a split-phase barrier: begin it, compute, and look whether all members have begun it (NICAM, section
// 3.3).
//
// When a barrier has ended at a rank, every member has begun it, and what each had written to members, stored or issued
// before is visible. A member at which it has ended may leave at once: that is no loss to those that still wait for it.
// It ends with no further call by any member. Up to 8 are under way at once; they end in order.
//
// Writes of a member to ranks outside the group are visible as well, if those answer within a second (50 ms for
// 10 s after one did not). Otherwise the member alone is told, by a Status with `outside`: those writes may be visible,
// lost, or visible later. The group goes on.
//
// After any other failure of a member the group does not meet again. A member that cannot arrive (by link_lost, say:
// its writes to another member may be lost) has used up that barrier's number. It cannot retry: the other members'
// waits for this barrier, and all waits for later ones, end at their deadlines.
//
// Thread safety: every call, from any thread; each brings its own Channel. What other threads of a rank have written
// they flush before one of them begins the barrier.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "farside/comm/comm.h"

namespace farside::comm {

class Group;

class Barrier {
 public:
  /// Which barrier it is, from 1. With 0 it did not begin.
  struct [[nodiscard]] Begun {
    Status status;
    std::uint64_t number;
  };

  /// Collective over the team: each rank with the ranks of its own group, ascending; none for all of the team. `comm`
  /// outlives this. Throws UsageError for a group that this rank is not in.
  explicit Barrier(Comm& comm, std::vector<team::Rank> members = {});
  ~Barrier();
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  /// Waits only when 8 are under way, for the first of them.
  Begun begin(Channel& channel, Deadline deadline);
  [[nodiscard]] bool ended(std::uint64_t number) const;
  /// With `outside` the barrier has ended, and what this rank had written to ranks outside the group may be lost.
  Status wait(Channel& channel, std::uint64_t number, Deadline deadline) const;

  /// Begins one and waits for it.
  Status pass(Channel& channel, Deadline deadline);

 private:
  std::shared_ptr<Group> group_;
};

}  // namespace farside::comm
