// slab_states.h — which slabs of a spilled space are in the file alone, and which threads are at which.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"

namespace farside::far {

/// Thread safety: every call, from any thread. Requires: a thread that uses slabs moves none.
class SlabStates {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SlabStates(std::uint64_t slabs) : slabs_(slabs) {}

  enum class Entry : std::uint8_t { pool, some_in_file, late };
  /// Uses them all, unless it is late. Waits while one of them is moved.
  [[nodiscard]] Entry use(std::span<const std::uint64_t> slabs, Clock::time_point deadline) {
    MutexLock lock(mutex_);
    const auto at_rest = [&]() REQUIRES(mutex_) {
      return std::ranges::none_of(slabs, [this](std::uint64_t slab) REQUIRES(mutex_) { return slabs_[slab].moved; });
    };
    if (!changed_.wait_until(lock, deadline, at_rest)) return Entry::late;
    bool in_file = false;
    for (const std::uint64_t slab : slabs) {
      ++slabs_[slab].users;
      in_file |= slabs_[slab].in_file;
    }
    return in_file ? Entry::some_in_file : Entry::pool;
  }
  void end_use(std::span<const std::uint64_t> slabs) {
    const MutexLock lock(mutex_);
    for (const std::uint64_t slab : slabs) {
      assert_that(slabs_[slab].users != 0, "a slab whose use ends is used");
      --slabs_[slab].users;
    }
    changed_.notify_all();
  }

  /// Moves it, when no thread uses it any more; false when it is late.
  [[nodiscard]] bool move(std::uint64_t slab, Clock::time_point deadline) {
    MutexLock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [&]() REQUIRES(mutex_) { return !slabs_[slab].moved; })) return false;
    slabs_[slab].moved = true;  // so that no new ones come
    if (changed_.wait_until(lock, deadline, [&]() REQUIRES(mutex_) { return slabs_[slab].users == 0; })) return true;
    slabs_[slab].moved = false;
    changed_.notify_all();
    return false;
  }
  void end_move(std::uint64_t slab) {
    const MutexLock lock(mutex_);
    assert_that(slabs_[slab].moved && slabs_[slab].users == 0, "no thread uses a slab while it is moved");
    slabs_[slab].moved = false;
    changed_.notify_all();
  }

  /// For the thread that uses or moves it.
  [[nodiscard]] bool in_file(std::uint64_t slab) const {
    const MutexLock lock(mutex_);
    return slabs_[slab].in_file;
  }
  /// For the thread that moves it.
  void set_in_file(std::uint64_t slab, bool in_file) {
    const MutexLock lock(mutex_);
    assert_that(slabs_[slab].moved, "a slab goes to the file, or comes from it, only while it is moved");
    slabs_[slab].in_file = in_file;
  }

 private:
  struct State {
    std::uint32_t users = 0;
    bool moved = false;
    bool in_file = false;
  };

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<State> slabs_ GUARDED_BY(mutex_);
};

}  // namespace farside::far
