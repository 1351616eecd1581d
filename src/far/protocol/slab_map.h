// slab_map.h — where each slab of a space is, and how it gets there and away.
//
// Guarantee: a slab's place changes only while one is alone at it, and nothing that was given up can land there any
// more. Who shares it may read and write there, at every copy whose node is not lost: a node that is lost to this
// process stays so, and what it had is out of date.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "farside/far/space.h"

#include "base/mutex.h"
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

/// So many slabs of a space have room on nodes with so many free ones. Copies of a slab lie on different nodes.
[[nodiscard]] std::uint64_t room_for(std::span<const std::uint64_t> free_slabs, std::uint32_t copies);

/// The copies of a slab; none: it was never written, and reads as zeros.
using Place = std::array<Copy, 2>;

/// Writes that were given up: each may still land at `nodes`, until a flush of the channel it was posted through, and
/// of no other, says that it is over.
struct Unfinished {
  std::unique_ptr<Channel> channel;
  std::vector<LentMemory*> nodes;
  std::vector<std::uint64_t> slabs{};  ///< of the space, each once
  std::vector<Copy> spare{};           ///< what goes back to its node then
};

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

  /// The caller shares the slabs of what it gives up, and does so no more.
  void leave_unfinished(Channel& channel, Unfinished given_up);
  /// Sees to it that nothing is unfinished, at `slab` or anywhere.
  [[nodiscard]] Outcome settle(Channel& channel, std::uint64_t slab, Deadline deadline);
  [[nodiscard]] Outcome settle(Channel& channel, Deadline deadline);

  /// Gives every slab of which one copy lives a second one, unless there is to be one only. True when that was not
  /// needed since the last loss; false when no other node had room for some, or they were in use. Sees to what is
  /// unfinished, and to what nodes that did not answer should have back, too. For one thread.
  bool mend(Deadline deadline);

 private:
  [[nodiscard]] Outcome be_alone(Channel& channel, std::uint64_t slab, Deadline deadline);
  [[nodiscard]] Result take_copies(Channel& channel, std::uint64_t slab, Place& place, Deadline deadline);

  [[nodiscard]] std::optional<Unfinished> pick_unfinished(std::optional<std::uint64_t> slab);
  [[nodiscard]] Outcome end(Channel& channel, Unfinished given_up, Deadline deadline);

  void give_back(Channel& channel, const Copy& copy);
  void pay_debts();

  [[nodiscard]] bool mend_one(std::uint64_t slab);
  [[nodiscard]] bool add_copy(std::uint64_t slab, Place& place);
  [[nodiscard]] bool copy(const Copy& from, const Copy& to, Deadline deadline);
  [[nodiscard]] std::uint64_t damage() const;

  Fabric& fabric_;
  const SpaceShape shape_;
  const FarRules rules_;
  const Holds holds_;
  std::vector<Place> places_;
  mutable Mutex mutex_;  // never held across a call of the fabric that waits
  std::vector<std::unique_ptr<LentMemory>> nodes_ GUARDED_BY(mutex_);  // each stays where it is
  std::vector<Unfinished> unfinished_ GUARDED_BY(mutex_);              ///< but for those that a thread sees to
  std::set<const LentMemory*> silent_ GUARDED_BY(mutex_);  ///< did not take back what they were given in time,
  std::vector<Copy> debts_ GUARDED_BY(mutex_);             ///< and so are not asked to for now

  // Used by the thread that mends.
  std::unique_ptr<Channel> mender_;
  std::uint64_t mended_ = 0;  ///< the damage() when nothing was left to mend
  Duration copy_limit_;       ///< grows with what was not copied in time
  std::vector<std::byte> copied_;
};

}  // namespace farside::far
