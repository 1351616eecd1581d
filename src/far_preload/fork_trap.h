// fork_trap.h — the system call by which libc forks, in our hands.
//
// libc writes into the child before any handler of the child runs: it resets its streams' locks, clears what other
// threads had by their keys, and unlinks their stacks. Where it does so in pages that are far, the child must have its
// userfaultfd by then; so it joins within that system call.
#pragma once

namespace farside::far_preload {

struct SystemCall {
  long number;
  long words[6];  ///< its arguments

  /// As it was meant.
  long make() const;
};

using ForkInOurPlace = long(const SystemCall& call);

/// Calls `fork` in the place of the system call by which this thread is about to fork. The caller receives
/// fork's result in both processes. `fork` runs on a stack that is not far: a page that leaves waits for the dropper,
/// which a child does not have yet. 0, or -errno.
///
/// One thread at a time, with all signals blocked. By the kernel's dispatch of system calls to user space (Linux 5.11).
[[nodiscard]] long trap_next_fork(ForkInOurPlace* fork);

}  // namespace farside::far_preload
