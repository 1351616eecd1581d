// region_header.h — the page before a region's bytes, through which a writer wakes the region's owner.
//
//   0        8        16         20        24               4096
//   | magic  | bytes  | sequence | waiters | zero ...        | the user's bytes ...
//
// Waking: a writer stores its word, fences, and looks at `waiters`; a waiter counts itself in, fences, and looks at the
// word. One of the two sees the other (store buffering with both fences), so no wake-up is lost, and a write without a
// waiter makes no system call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "farside/fabric/time.h"

namespace farside {

struct RegionHeader {
  std::uint64_t magic;
  std::uint64_t bytes;     ///< of the user
  std::uint32_t sequence;  ///< a futex; advanced before each wake-up
  std::uint32_t waiters;   ///< threads of the owner that sleep, or are about to
};

inline constexpr std::uint64_t kRegionMagic = 0x3165646973726166;  // "farside1"
inline constexpr std::size_t kRegionHeaderBytes = 4096;            // a page, so that the user's bytes begin on one
static_assert(offsetof(RegionHeader, sequence) == 16 && offsetof(RegionHeader, waiters) == 20);
static_assert(sizeof(RegionHeader) <= kRegionHeaderBytes);

/// Every access before it is visible to every CPU before any access after it takes place.
inline void full_fence() { __sync_synchronize(); }

/// Loads before it take place before loads after it.
inline void load_fence() {
#if defined(__SANITIZE_THREAD__)
  full_fence();  // the sanitizer knows no other
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

/// Accesses before it take place before stores after it.
inline void store_fence() {
#if defined(__SANITIZE_THREAD__)
  full_fence();
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}

/// Wakes the threads that sleep on the region. What they wait for was stored before.
void wake_sleepers(RegionHeader& header);

/// A thread that may sleep on a region; counted as long as it lives.
class Sleeper {
 public:
  explicit Sleeper(RegionHeader& header);
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  /// Take a ticket, then look whether there is a reason not to sleep, then sleep on the ticket: a wake-up after the
  /// ticket was taken ends the sleep at once.
  [[nodiscard]] std::uint32_t ticket() const;
  void sleep(std::uint32_t ticket, Duration at_most) const;

 private:
  RegionHeader& header_;
};

}  // namespace farside
