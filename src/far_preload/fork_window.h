// fork_window.h — the time in which copies of this process have far memory's addresses. Stands alone: hooks of several
// files take the lock.
#pragma once

#include "held.h"

namespace farside::far_preload {

/// Held while a fork has the kernel copy those addresses (MADV_DOFORK), and by each that makes another copy: that one
/// would have no userfaultfd, and would read zeros there. Taken with all signals blocked, after the arena's lock or
/// without it. Its holder waits for the kernel alone, and not for memory, locks or farside far: a signal handler may
/// wait for it, whatever its thread was doing.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): it begins with a constant
extern constinit Lock fork_window;

}  // namespace farside::far_preload
