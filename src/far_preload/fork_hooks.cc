// The functions of libc that copy the process and run no handlers of fork. Their copies have no far memory: an access
// is a fault (SIGSEGV).
#include <cerrno>
#include <csignal>
#include <cstdarg>

#include <sched.h>
#include <unistd.h>

#include "arena.h"
#include "cache_preload/next.h"
#include "fork_window.h"
#include "held.h"

namespace farside::far_preload {

constinit Lock fork_window;

}  // namespace farside::far_preload

namespace {

namespace arena = farside::far_preload::arena;
using farside::cache_preload::Next;
using farside::far_preload::fork_window;
using farside::far_preload::SignalsHeld;
using Function = int(void*);

constinit Next<pid_t()> next_fork("_Fork");
constinit Next<int(Function*, void*, int, void*, ...)> next_clone("clone");

// _Fork may be called by a signal handler.
[[gnu::constructor]] void find_all() {
  next_fork.find();
  next_clone.find();
}

// The work of a copy that clone makes. Not on the caller's stack: that may be far.
struct Start {
  Function* function;
  void* argument;
  SignalsHeld::Mask mask;
};
constinit Start start{};

void begin_copy(const SignalsHeld::Mask& mask) RELEASE(fork_window) {
  arena::leave();
  fork_window.unlock();
  SignalsHeld::restore(mask);
}

int run_copy(void* /*argument*/) RELEASE(fork_window) {
  const Start own = start;
  begin_copy(own.mask);
  return own.function(own.argument);
}

/// The words of clone that only some flags have.
struct Places {
  pid_t* of_number = nullptr;
  void* of_thread = nullptr;
  pid_t* of_number_in_child = nullptr;
};

int copy_by_clone(Function* function, void* stack, int flags, void* argument, const Places& places) {
  SignalsHeld::Mask mask = 0;
  SignalsHeld::hold(mask);
  fork_window.lock();
  start = {function, argument, mask};
  const int result =
      next_clone(run_copy, stack, flags, nullptr, places.of_number, places.of_thread, places.of_number_in_child);
  fork_window.unlock();
  SignalsHeld::restore(mask);
  return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

pid_t _Fork() noexcept {
  SignalsHeld::Mask mask = 0;
  SignalsHeld::hold(mask);
  fork_window.lock();
  const pid_t result = next_fork();
  if (result == 0) {
    begin_copy(mask);
  } else {
    fork_window.unlock();
    SignalsHeld::restore(mask);
  }
  return result;
}

// A copy that its parent waits for (CLONE_VFORK) would hold all other forks up until it has executed a program.
int clone(Function* function, void* stack, int flags, void* argument, ...) noexcept {
  constexpr int kHavePlaces =
      CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_SETTLS | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  Places places;
  if ((flags & kHavePlaces) != 0) {
    va_list list;
    va_start(list, argument);
    places.of_number = va_arg(list, pid_t*);
    places.of_thread = va_arg(list, void*);
    places.of_number_in_child = va_arg(list, pid_t*);
    va_end(list);
  }
  const bool copies = (flags & CLONE_VM) == 0 && function != nullptr && !arena::zones().empty();
  if (!copies) {
    return next_clone(function, stack, flags, argument, places.of_number, places.of_thread, places.of_number_in_child);
  }
  if ((flags & CLONE_VFORK) != 0) {
    errno = EINVAL;
    return -1;
  }
  return copy_by_clone(function, stack, flags, argument, places);
}

}  // extern "C"
#pragma GCC visibility pop
