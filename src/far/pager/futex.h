// futex.h — sleeping on a word of this process. Fault handlers may use it: it takes no lock and no memory.
//
// Stands alone: frames and page table sleep on words of their own.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farside::far {

/// Returns when the word was woken, differs from `seen`, or the time is over; also for no reason.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::milliseconds at_most) {
  const timespec timeout{at_most.count() / 1000, at_most.count() % 1000 * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace farside::far
