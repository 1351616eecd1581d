// slab_map.h — where each slab of a space is, and how it gets there and away.
//
// Guarantee: a slab's place changes only while one is alone at it, and nothing that was given up can land there any
// more. A thread that shares it may read and write there, at every copy whose node is not lost: a node that is lost to
// this process stays so, and what it had is out of date.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "farside/far/space.h"

#include "base/backoff.h"
#include "base/mutex.h"
#include "far/protocol/block_states.h"
#include "far/protocol/holds.h"
#include "far/protocol/lent_memory.h"
#include "far/protocol/rules.h"
#include "far/protocol/slab_returns.h"
#include "far/time_limits.h"

namespace farside::far {

struct SpaceShape {
  std::uint64_t bytes = 0;
  std::uint64_t slab_bytes = 0;
  std::uint32_t copies = 1;          ///< of each slab, on as many nodes: 1 or 2
  std::uint64_t block_bytes = 4096;  ///< a power of 2: what is discarded, or written to although its nodes are lost
};

/// How long a node may not answer.
struct AnswerLimits {
  Duration read = time_limits::kRead;  ///< a READ, when there is another copy; doubled with each failure in a row
  Duration look = time_limits::kLook;  ///< a look at it
  std::uint32_t looks =
      time_limits::kLooks;  ///< after so many in a row it is given up, if that is safe: a busy machine answers sooner
  Duration noticeable = time_limits::kNoticeable;  ///< until the user is told, without a mirror
};

/// The slabs of a space that have memory, by the copies that live.
struct CopyCounts {
  std::uint64_t whole = 0;   ///< as many as there are to be
  std::uint64_t single = 0;  ///< one of two
  std::uint64_t lost = 0;    ///< none

  bool operator==(const CopyCounts&) const = default;
};

struct Loss {
  std::uint64_t offset;  ///< of a slab, in the space
  PeerId node;           ///< one that had a copy

  bool operator==(const Loss&) const = default;
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
  SlabMap(Fabric& fabric, PeerId self, const SpaceShape& shape, const FarRules& rules, const AnswerLimits& limits);

  [[nodiscard]] Fabric& fabric() const noexcept { return fabric_; }
  [[nodiscard]] const SpaceShape& shape() const noexcept { return shape_; }
  [[nodiscard]] const FarRules& rules() const noexcept { return rules_; }
  [[nodiscard]] const AnswerLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] const Holds& holds() const noexcept { return holds_; }
  [[nodiscard]] std::uint64_t slabs() const noexcept { return places_.size(); }
  /// Requires the slab's hold.
  [[nodiscard]] const Place& place(std::uint64_t slab) const { return places_[slab]; }
  /// Requires the slab's hold. Whether it has memory, on a node that is not lost.
  [[nodiscard]] bool has_place(std::uint64_t slab) const { return std::ranges::any_of(places_[slab], &Copy::lives); }
  /// For a thread that holds the slab: of one that has memory, or had some on lost nodes.
  [[nodiscard]] BlockStates& blocks() noexcept { return blocks_; }

  /// One more node to take slabs of. Throws Error when its slabs are of another size.
  void add(std::unique_ptr<LentMemory> node);
  [[nodiscard]] std::vector<LentMemory*> living() const;
  /// Whether `slab` has memory, and no node that has it answers, though one lives.
  [[nodiscard]] bool is_out_of_reach(std::uint64_t slab) const;
  /// Whether `slab` has no memory, and a node that may have room for it does not answer.
  [[nodiscard]] bool may_wait_for_room(std::uint64_t slab) const;

  /// Takes memory for `slab`, unless it has some on a node that is not lost.
  [[nodiscard]] Status provide(Channel& channel, std::uint64_t slab, Deadline deadline);
  /// Gives it back: `slab` reads as zeros.
  [[nodiscard]] Status drop(Channel& channel, std::uint64_t slab, Deadline deadline);
  /// Soon, if all its blocks are zeros then.
  void drop_zeros(Channel& channel, std::uint64_t slab);
  /// With nothing unfinished there.
  [[nodiscard]] Outcome be_alone(Channel& channel, std::uint64_t slab, Deadline deadline);
  /// Looks at each node that something failed at.
  void find_lost(Channel& channel, Deadline deadline) const;

  /// Treats `node`, which lives but does not answer, as lost, if no data is lost by that: each slab that it has a copy
  /// of has another one at a node of `answering`. Returns whether it did.
  [[nodiscard]] bool give_up(LentMemory& node, std::span<LentMemory* const> answering);
  [[nodiscard]] CopyCounts count_copies() const;
  /// Slabs of which no copy is left, each once for each time that it is lost.
  [[nodiscard]] std::vector<Loss> take_losses();

  /// The caller shares the slabs of what it gives up, and does so no more.
  void leave_unfinished(Channel& channel, Unfinished given_up);
  /// Sees to it that nothing is unfinished, at `slab` or anywhere.
  [[nodiscard]] Outcome settle(Channel& channel, std::uint64_t slab, Deadline deadline);
  [[nodiscard]] Outcome settle(Channel& channel, Deadline deadline);

  /// Gives every slab of which one copy lives a second one, unless there is to be one only. True when that was not
  /// needed since the last loss; false when no other node had room for some, or they were in use. Sees to what is
  /// unfinished, and to what nodes that did not answer should have back, too. For one thread.
  bool repair(Deadline deadline);

 private:
  void set_place(std::uint64_t slab, const Place& place);
  void note_loss(std::uint64_t slab) REQUIRES(mutex_);
  [[nodiscard]] bool is_spared_by(const LentMemory& node, std::span<LentMemory* const> answering) const
      REQUIRES(mutex_);
  void give_back_all(std::uint64_t slab);
  [[nodiscard]] Status take_copies(Channel& channel, std::uint64_t slab, Place& place, Deadline deadline);

  [[nodiscard]] std::optional<Unfinished> pick_unfinished(std::optional<std::uint64_t> slab);
  [[nodiscard]] Outcome end(Channel& channel, Unfinished given_up, Deadline deadline);

  void drop_unused();

  [[nodiscard]] bool repair_one(std::uint64_t slab);
  [[nodiscard]] bool may_copy(const Copy& from) const;
  [[nodiscard]] bool add_copy(std::uint64_t slab, Place& place);
  [[nodiscard]] bool copy(const Copy& from, const Copy& to, Deadline deadline);
  [[nodiscard]] std::uint64_t damage() const;

  Fabric& fabric_;
  const SpaceShape shape_;
  const FarRules rules_;
  const AnswerLimits limits_;
  const Holds holds_;
  mutable Mutex mutex_;        // never held across a call of the fabric that waits
  std::vector<Place> places_;  ///< changed by the thread that is alone there, under the mutex; read under either
  BlockStates blocks_;         ///< a slab that has no place has none
  std::vector<std::uint8_t> noted_lost_ GUARDED_BY(mutex_);  ///< by slab: that no copy of it is left was noted
  std::vector<Loss> losses_ GUARDED_BY(mutex_);              ///< noted, and not taken yet
  std::set<std::uint64_t> unused_ GUARDED_BY(mutex_);        ///< slabs of zeros that are to be given back
  std::vector<std::unique_ptr<LentMemory>> nodes_ GUARDED_BY(mutex_);  // each stays where it is
  std::vector<Unfinished> unfinished_ GUARDED_BY(mutex_);              ///< but for those that a thread sees to
  SlabReturns returns_;

  // Used by the thread that repairs.
  std::unique_ptr<Channel> repairer_;
  std::uint64_t repaired_ = 0;     ///< the damage() when nothing was left to repair
  Backoff<Duration> copy_limits_;  ///< grow with what was not copied in time
  std::vector<std::byte> copied_;
};

}  // namespace farside::far
