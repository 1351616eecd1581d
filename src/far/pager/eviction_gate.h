// eviction_gate.h — the eviction gate: a fork blocks evictions and discards.
#pragma once

#include <atomic>

#include "base/assert.h"
#include "base/mutex.h"

namespace farside::far {

/// Thread safety: every call, from any thread.
class EvictionGate {
 public:
  /// One eviction or discard, from its first lock to its last. Waits until none is barred.
  class Passage {
   public:
    explicit Passage(EvictionGate& eviction_gate) : eviction_gate_(eviction_gate) {
      MutexLock lock(eviction_gate.mutex_);
      eviction_gate.changed_.wait(lock, [&] { return eviction_gate.bars_ == 0; });
      ++eviction_gate.under_way_;
    }
    ~Passage() {
      const MutexLock lock(eviction_gate_.mutex_);
      if (--eviction_gate_.under_way_ == 0 && eviction_gate_.bars_ != 0) eviction_gate_.changed_.notify_all();
    }
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;

   private:
    EvictionGate& eviction_gate_;
  };

  /// While it lives, none is under way.
  class Bar {
   public:
    explicit Bar(EvictionGate& eviction_gate) : eviction_gate_(eviction_gate) {
      MutexLock lock(eviction_gate.mutex_);
      ++eviction_gate.bars_;
      eviction_gate.changed_.wait(lock, [&]() REQUIRES(eviction_gate.mutex_) { return eviction_gate.under_way_ == 0; });
    }
    ~Bar() {
      const MutexLock lock(eviction_gate_.mutex_);
      assert_that(eviction_gate_.under_way_ == 0, "no page leaves while the gate is closed");
      if (--eviction_gate_.bars_ == 0) eviction_gate_.changed_.notify_all();
    }
    Bar(const Bar&) = delete;
    Bar& operator=(const Bar&) = delete;

   private:
    EvictionGate& eviction_gate_;
  };

  /// May be called from fault handlers, too.
  [[nodiscard]] bool barred() const { return bars_.load() != 0; }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int under_way_ GUARDED_BY(mutex_) = 0;
  std::atomic<int> bars_{0};  ///< changed under the mutex
};

}  // namespace farside::far
