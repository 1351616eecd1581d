// slots.h — the pages of the space, counted: how many processes may fetch each, after forks.
//
// Slots are given out side by side, from groups of a slab's size, so that what is stored together travels together. A
// group of which nothing is left goes back to the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/assert.h"
#include "base/lazy_array.h"
#include "base/mutex.h"
#include "far/pager/page_io.h"

namespace farside::far {

using Slot = PageNumber;

/// Thread safety: every call, from any thread.
class Slots {
 public:
  /// Manages the slots of the space that `keeper` reaches, which has `count`.
  Slots(std::unique_ptr<PageIo> keeper, Slot count);

  [[nodiscard]] std::uint64_t used();

  /// While it lives, no other thread changes a count. What became empty is given back when it ends,
  /// and what could not be before; the latter also when there was no room.
  class Access {
   public:
    explicit Access(Slots& slots) : slots_(slots), lock_(slots.mutex_) {}
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

    /// Returns a slot that was unused, now counted once; or none when the space is full.
    [[nodiscard]] std::optional<Slot> take();
    void share(Slot slot) {
      slots_.mutex_.assume_held();  // by lock_, as in the other members
      assert_that(slots_.counts_[slot] != 0, "a slot that is shared is in use");
      ++slots_.counts_[slot];
    }
    void release(Slot slot);
    [[nodiscard]] std::uint32_t count(Slot slot) const {
      slots_.mutex_.assume_held();
      return slots_.counts_[slot];
    }

   private:
    Slots& slots_;
    MutexLock lock_;
    std::vector<std::uint32_t> emptied_;
    bool lacked_room_ = false;
  };

 private:
  static constexpr Slot kGroup = 1024;
  static constexpr std::uint32_t kWorthIt = kGroup / 16;  ///< so many are free in a group from which more are taken
  static constexpr std::uint32_t kNone = ~0U;

  [[nodiscard]] Slot begin_of(std::uint32_t group) const { return group * kGroup; }
  [[nodiscard]] std::uint32_t size_of(std::uint32_t group) const;
  [[nodiscard]] std::uint32_t free_in(std::uint32_t group) const REQUIRES(mutex_) {
    return size_of(group) - used_of_[group];
  }
  [[nodiscard]] bool choose_group() REQUIRES(mutex_);
  void leave_group() REQUIRES(mutex_);
  void file(std::uint32_t group) REQUIRES(mutex_);
  void give_back(const std::vector<std::uint32_t>& groups) EXCLUDES(mutex_);

  const Slot count_;
  Mutex mutex_;
  LazyArray<std::uint32_t> counts_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> used_of_ GUARDED_BY(mutex_);  ///< by group
  std::uint64_t used_ GUARDED_BY(mutex_) = 0;
  std::uint32_t current_ GUARDED_BY(mutex_) = kNone;  ///< group from which slots are taken, in none of these sets
  Slot cursor_ GUARDED_BY(mutex_) = 0;
  /// Groups in use with much, and little, that is free.
  std::set<std::uint32_t> roomy_ GUARDED_BY(mutex_), tight_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> returned_ GUARDED_BY(mutex_);
  std::uint32_t fresh_ GUARDED_BY(mutex_) = 0;  ///< from here on groups were never used

  std::vector<std::uint32_t> unerased_ GUARDED_BY(mutex_);  ///< emptied, and the space may still have bytes
  bool is_erasing_ GUARDED_BY(mutex_) = false;              ///< a thread is, the one that uses the keeper
  const std::unique_ptr<PageIo> keeper_;
};

}  // namespace farside::far
