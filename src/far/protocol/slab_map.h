// slab_map.h — where each slab of a space is, and how it gets there and away.
//
// Guarantee: a slab's place changes only while one is alone at it. Who shares it may read and write there, at every
// copy whose node is not lost: a node that is lost to this process stays so, and what it had is out of date.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "farside/far/space.h"

#include "far/protocol/holds.h"
#include "far/protocol/lent_memory.h"
#include "far/protocol/rules.h"

namespace farside::far {

struct SpaceShape {
  std::uint64_t bytes = 0;
  std::uint64_t slab_bytes = 0;
  std::uint32_t copies = 1;  ///< of each slab, on as many nodes: 1 or 2
};

struct Copy {
  LentMemory* node = nullptr;  ///< null: there is none
  SlabNumber slab = 0;

  [[nodiscard]] bool lives() const { return node != nullptr && !node->lost(); }
};

/// The copies of a slab; none: it was never written, and reads as zeros.
using Place = std::array<Copy, 2>;

/// Thread safety: every call, from any thread, each with a channel of its own.
class SlabMap {
 public:
  /// `self` is the loopback of `fabric`.
  SlabMap(Fabric& fabric, PeerId self, const SpaceShape& shape, const FarRules& rules);

  [[nodiscard]] Fabric& fabric() const noexcept { return fabric_; }
  [[nodiscard]] const SpaceShape& shape() const noexcept { return shape_; }
  [[nodiscard]] const FarRules& rules() const noexcept { return rules_; }
  [[nodiscard]] const Holds& holds() const noexcept { return holds_; }
  [[nodiscard]] std::uint64_t slabs() const noexcept { return places_.size(); }
  /// For who holds it.
  [[nodiscard]] const Place& place(std::uint64_t slab) const { return places_[slab]; }

  /// One more node to take slabs of. Throws Error when its slabs are of another size.
  void add(std::unique_ptr<LentMemory> node);
  [[nodiscard]] std::vector<LentMemory*> living() const;

  /// Takes memory for `slab`, unless it has some.
  [[nodiscard]] Result provide(Channel& channel, std::uint64_t slab, Deadline deadline);
  /// Gives it back: `slab` reads as zeros.
  [[nodiscard]] Result drop(Channel& channel, std::uint64_t slab, Deadline deadline);
  /// Looks at each node that something failed at.
  void find_lost(Channel& channel, Deadline deadline) const;

  /// Gives every slab of which one copy lives a second one, unless there is to be one only. True when that was not
  /// needed since the last loss; false when no other node had room for some, or they were in use. For one thread.
  bool mend(Channel& channel, Deadline deadline);

 private:
  [[nodiscard]] Result take_copies(Channel& channel, std::uint64_t slab, Place& place, Deadline deadline);
  [[nodiscard]] bool mend_one(Channel& channel, std::uint64_t slab);
  [[nodiscard]] bool add_copy(Channel& channel, std::uint64_t slab, Place& place);
  [[nodiscard]] bool copy(Channel& channel, const Copy& from, const Copy& to, Deadline deadline);
  [[nodiscard]] std::uint64_t damage() const;

  Fabric& fabric_;
  const SpaceShape shape_;
  const FarRules rules_;
  const Holds holds_;
  std::vector<Place> places_;
  mutable std::mutex mutex_;                        // for the nodes; never held across a call of the fabric that waits
  std::vector<std::unique_ptr<LentMemory>> nodes_;  // each stays where it is

  // Of the thread that mends.
  std::uint64_t mended_ = 0;  ///< the damage() when nothing was left to mend
  std::vector<std::byte> copied_;
};

}  // namespace farside::far
