// lent_memory.h — the memory of one node as its client sees it: slabs are taken and given back one-sidedly.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "farside/fabric/fabric.h"

#include "base/assert.h"
#include "base/mutex.h"
#include "far/protocol/layout.h"

namespace farside::far {

/// Slabs by state, and what they are.
struct LentUse {
  std::uint64_t slab_bytes = 0;
  std::uint64_t bare = 0;
  std::uint64_t free = 0;
  std::uint64_t taken = 0;
  std::uint64_t returned = 0;

  [[nodiscard]] std::uint64_t slabs() const noexcept { return bare + free + taken + returned; }
};

/// Thread safety: every call, from any thread, each with a channel of its own.
class LentMemory {
 public:
  /// `self` is what the node welcomed this process as. Throws Error when the table is not one.
  LentMemory(Fabric& fabric, std::unique_ptr<RemoteRegion> table, std::unique_ptr<RemoteRegion> memory, Holder self);

  [[nodiscard]] PeerId peer() const noexcept { return memory_->peer(); }
  [[nodiscard]] bool lost() const { return fabric_.lost(peer()); }
  void mark_lost() { fabric_.mark_lost(peer(), life_); }
  [[nodiscard]] std::uint64_t slab_bytes() const noexcept { return slab_bytes_; }

  /// Whether its node may live and not answer: it carries out what it is asked for. Mapped memory always answers.
  [[nodiscard]] bool may_not_answer() const noexcept { return !by_memory_; }
  /// Whether its node did not answer when it was last looked at (LenderWatch).
  [[nodiscard]] bool unresponsive() const {
    if (by_memory_) return false;
    const MutexLock lock(mutex_);
    return unresponsive_;
  }
  void set_unresponsive(bool unresponsive) {
    const MutexLock lock(mutex_);
    unresponsive_ = unresponsive;
  }
  /// READs a word into `word`: is_answer tells whether it came.
  void ask(Batch& batch, std::uint64_t& word) const;
  [[nodiscard]] static bool is_answer(std::uint64_t word) noexcept { return word == kTableMagic; }

  enum class Take : std::uint8_t {
    taken,
    soon,    ///< the node is about to have one
    full,    ///< all are taken, or the machine has no memory for more
    failed,  ///< the node did not answer; a slab that it gave stays unused until this client has gone
  };
  /// A slab full of zeros.
  [[nodiscard]] Take take(Channel& channel, SlabNumber& slab, Deadline deadline);
  /// `slab` is used no more, and no operation on it is unfinished. Once for each time that it was taken; again only
  /// when that failed, nothing of it can land any more, and `is_still_taken`.
  [[nodiscard]] Outcome give_back(Channel& channel, SlabNumber slab, Deadline deadline);
  /// How often this client has taken it.
  [[nodiscard]] std::uint64_t takes(SlabNumber slab) const;
  /// Whether `slab` is this client's, and has not been taken since it had taken it `takes` times. Nothing: the node did
  /// not answer, or a slab is being taken just now. Requires that nothing gives it back at that time.
  [[nodiscard]] std::optional<bool> is_still_taken(Channel& channel, SlabNumber slab, std::uint64_t takes,
                                                   Deadline deadline) const;

  /// In a slab.
  [[nodiscard]] RemoteSpan span(SlabNumber slab, std::uint64_t offset, std::uint64_t bytes) const {
    assert_that(slab < slabs_ && offset <= slab_bytes_ && bytes <= slab_bytes_ - offset,
                "an operation lies within one slab");
    return memory_->span(slab * slab_bytes_ + offset, bytes);
  }
  /// Whether the node answers this client; if not, it counts as lost from here on.
  bool answers(Channel& channel, Deadline deadline);
  /// Nothing when the node does not answer.
  [[nodiscard]] std::optional<LentUse> use(Channel& channel, Deadline deadline) const;

 private:
  static constexpr std::size_t kWordsAtOnce = 256;
  using Words = std::array<std::uint64_t, kWordsAtOnce>;

  [[nodiscard]] Take try_take(Channel& channel, SlabNumber& slab, Deadline deadline);
  void ring(Channel& channel, Deadline deadline);

  Fabric& fabric_;
  const std::unique_ptr<RemoteRegion> table_;
  const std::unique_ptr<RemoteRegion> memory_;
  const PeerLife life_;  ///< of the peer
  const bool by_memory_;
  const Holder self_;
  std::uint64_t slab_bytes_ = 0;
  SlabNumber slabs_ = 0;
  mutable Mutex mutex_;
  bool unresponsive_ GUARDED_BY(mutex_) = false;
  std::uint32_t taking_ GUARDED_BY(mutex_) = 0;  ///< threads that have taken a slab, perhaps, and not counted it yet
  std::map<SlabNumber, std::uint64_t> takes_ GUARDED_BY(mutex_);
};

}  // namespace farside::far
