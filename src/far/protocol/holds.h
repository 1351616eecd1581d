// holds.h — who is at a slab of a space: many that read and write, or one that changes where it is.
//
// A word for each slab, in memory of this process, which threads change through the loopback:
//
//   63      62      0
//   | alone | sharers |
//
// To share: add 1; where `alone` is set, subtract it again and wait. To be alone: set `alone`, which one can do at a
// time, then wait until there are no sharers. Nobody who is alone waits for another hold, and who shares several takes
// them in the order of their numbers: so no circle of waiters can close.
#pragma once

#include <cstdint>
#include <memory>

#include "farside/fabric/fabric.h"

namespace farside::far {

/// Thread safety: every call, from any thread, each with a channel of its own.
class Holds {
 public:
  /// `self` is the loopback of `fabric`.
  Holds(Fabric& fabric, PeerId self, std::uint64_t count);

  /// Not done: it is not held.
  [[nodiscard]] Outcome share(Channel& channel, std::uint64_t slab, Deadline deadline) const;
  void unshare(Channel& channel, std::uint64_t slab) const;
  [[nodiscard]] Outcome be_alone(Channel& channel, std::uint64_t slab, Deadline deadline) const;
  void end_alone(Channel& channel, std::uint64_t slab) const;

 private:
  [[nodiscard]] std::uint64_t add(Channel& channel, std::uint64_t slab, std::uint64_t addend) const;
  void add_and_wake(Channel& channel, std::uint64_t slab, std::uint64_t addend) const;

  Fabric& fabric_;
  const std::unique_ptr<Region> words_;
  const std::unique_ptr<RemoteRegion> own_;
};

}  // namespace farside::far
