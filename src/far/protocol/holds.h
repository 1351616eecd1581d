// holds.h — which threads are at a slab of a space: many that read and write, or one that changes where it is; and
// whether writes that were given up may still land there.
//
// To share: count oneself among the sharers, once no thread is alone. To be alone: set `alone`, which one can do at a
// time, then wait until there are no sharers. A thread that is alone waits for no other hold, and one that shares
// several takes them in the order of their numbers: so no circle of waiters can close.
//
// A sharer whose write was given up leaves it behind as unfinished. Others may read there; a caller that wants to
// write, or to be alone, is told and sees to it first that it is over (SlabMap::settle).
//
// The counts are this process's own, under a mutex, since an operation through the loopback may end without telling
// whether it took effect, and would then be counted twice or not at all. Only the word that wakes sleepers is in a
// region: a lost ring costs a sleeper up to 100 ms.
#pragma once

#include <cstdint>
#include <memory>

#include "farside/fabric/fabric.h"

#include "base/mutex.h"

namespace farside::far {

/// Thread safety: every call, from any thread, each with a channel of its own.
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
  /// Whether a thread is alone at it, and no other shares it any more.
  [[nodiscard]] bool is_alone(std::uint64_t slab) const;

  /// Ends what one has of it, shared or alone, with a write that may still land.
  void leave_unfinished(Channel& channel, std::uint64_t slab) const;
  /// One of those is over.
  void finish(Channel& channel, std::uint64_t slab) const;
  /// Returns when none of them is left.
  [[nodiscard]] Outcome wait_finished(Channel& channel, std::uint64_t slab, Deadline deadline) const;

 private:
  struct Slab {
    Mutex mutex;
    std::uint32_t sharers GUARDED_BY(mutex) = 0;
    std::uint32_t unfinished GUARDED_BY(mutex) = 0;
    std::uint32_t sleepers GUARDED_BY(mutex) = 0;
    bool alone GUARDED_BY(mutex) = false;
  };

  template <class Act>
  [[nodiscard]] Outcome wait_until(Channel& channel, std::uint64_t slab, Act try_it, Deadline deadline) const;
  template <class Change>
  void change(Channel& channel, std::uint64_t slab, Change change) const;

  Fabric& fabric_;
  const std::unique_ptr<Region>
      bells_;  ///< an AtomicWord for each slab: it changes when there may be news for sleepers
  const std::unique_ptr<RemoteRegion> own_;
  const std::unique_ptr<Slab[]> slabs_;
};

}  // namespace farside::far
