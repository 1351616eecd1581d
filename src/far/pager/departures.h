// departures.h — the eviction gate: a fork blocks evictions and discards.
#pragma once

#include <atomic>

#include "base/assert.h"
#include "base/mutex.h"

namespace farside::far {

/// Thread safety: every call, from any thread.
class Departures {
 public:
  /// One eviction or discard, from its first lock to its last. Waits until none is barred.
  class Passage {
   public:
    explicit Passage(Departures& departures) : departures_(departures) {
      MutexLock lock(departures.mutex_);
      departures.changed_.wait(lock, [&] { return departures.bars_ == 0; });
      ++departures.under_way_;
    }
    ~Passage() {
      const MutexLock lock(departures_.mutex_);
      if (--departures_.under_way_ == 0 && departures_.bars_ != 0) departures_.changed_.notify_all();
    }
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;

   private:
    Departures& departures_;
  };

  /// While it lives, none is under way.
  class Bar {
   public:
    explicit Bar(Departures& departures) : departures_(departures) {
      MutexLock lock(departures.mutex_);
      ++departures.bars_;
      departures.changed_.wait(lock, [&]() REQUIRES(departures.mutex_) { return departures.under_way_ == 0; });
    }
    ~Bar() {
      const MutexLock lock(departures_.mutex_);
      assert_that(departures_.under_way_ == 0, "no page leaves while departures are barred");
      if (--departures_.bars_ == 0) departures_.changed_.notify_all();
    }
    Bar(const Bar&) = delete;
    Bar& operator=(const Bar&) = delete;

   private:
    Departures& departures_;
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
