// holds.h — who is at a slab of a space: many that read and write, or one that changes where it is; and whether writes
// that were given up may still land there.
//
// A word for each slab, in memory of this process, which threads change through the loopback:
//
//   63      62         32 31      0
//   | alone | unfinished | sharers |
//
// To share: add 1; where `alone` is set, subtract it again and wait. To be alone: set `alone`, which one can do at a
// time, then wait until there are no sharers. Nobody who is alone waits for another hold, and who shares several takes
// them in the order of their numbers: so no circle of waiters can close.
//
// A sharer whose write was given up leaves it behind as unfinished. Others may read there; who wants to write, or to be
// alone, is told and sees to it first that it is over (SlabMap::settle).
#pragma once

#include <cstdint>
#include <memory>

#include "farside/fabric/fabric.h"

namespace farside::far {

/// Thread safety: every call, from any thread, each with a channel of its own. All throw Error when the loopback does
/// not answer: then nobody knows any more who is where.
class Holds {
 public:
  /// `self` is the loopback of `fabric`.
  Holds(Fabric& fabric, PeerId self, std::uint64_t count);

  struct [[nodiscard]] Held {
    Outcome outcome;    ///< not done: it is not held
    bool unfinished{};  ///< writes that were given up before may still land
  };
  Held share(Channel& channel, std::uint64_t slab, Deadline deadline) const;
  void unshare(Channel& channel, std::uint64_t slab) const;
  /// Not held when something is unfinished.
  Held be_alone(Channel& channel, std::uint64_t slab, Deadline deadline) const;
  void end_alone(Channel& channel, std::uint64_t slab) const;

  /// Unshares it, with a write that may still land.
  void leave_unfinished(Channel& channel, std::uint64_t slab) const;
  /// One of those is over.
  void finish(Channel& channel, std::uint64_t slab) const;
  /// Returns when none of them is left.
  [[nodiscard]] Outcome wait_finished(Channel& channel, std::uint64_t slab, Deadline deadline) const;

 private:
  [[nodiscard]] std::uint64_t add(Channel& channel, std::uint64_t slab, std::uint64_t addend) const;
  void add_and_wake(Channel& channel, std::uint64_t slab, std::uint64_t addend) const;
  void stop_sharing(Channel& channel, std::uint64_t slab, std::uint64_t addend) const;

  Fabric& fabric_;
  const std::unique_ptr<Region> words_;
  const std::unique_ptr<RemoteRegion> own_;
};

}  // namespace farside::far
