// held.h — what hooks do under one lock, undisturbed.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>

#include <linux/futex.h>

#include "base/mutex.h"
#include "cache_preload/system_call.h"

namespace farside::far_preload {

/// Signals wait: a handler may map memory as well, and would wait for the lock that its own thread holds. Neither errno
/// nor anything of libc's is touched.
class SignalsHeld {
 public:
  SignalsHeld() { hold(before_); }
  ~SignalsHeld() { restore(before_); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  using Mask = std::uint64_t;  ///< the kernel's
  static void hold(Mask& before) {
    const Mask all = ~Mask{0};
    cache_preload::system_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof before);
  }
  static void restore(const Mask& before) {
    cache_preload::system_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
  }

 private:
  Mask before_;
};

/// 0: open, 1: taken, 2: taken, and a thread sleeps.
class CAPABILITY("mutex") Lock {
 public:
  void lock() ACQUIRE() {
    int seen = 0;
    if (word_.compare_exchange_strong(seen, 1)) return;
    while (word_.exchange(2) != 0) cache_preload::system_call(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, 2, nullptr);
  }
  void unlock() RELEASE() {
    if (word_.exchange(0) == 2) cache_preload::system_call(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1);
  }

 private:
  std::atomic<int> word_{0};
};

}  // namespace farside::far_preload
