// dropper.h — the one thread that we have in a program: it takes pages away when it is told to.
//
// It is none of libc's, has a table of descriptors of its own, and blocks all signals, so the program sees nothing of
// it. When farside far is gone it kills the process: nobody could bring a page any more.
#pragma once

#include <span>

#include "connection.h"

namespace farside::far_preload {

/// Starts it, with all signals blocked in the caller, and returns when it has its own copies of both descriptors. One
/// in each process: a child of fork has its parent's stack for it, and starts its own there. It takes away nothing but
/// parts of `joined`, which stays. 0, or -errno.
[[nodiscard]] long start_dropper(const Descriptor& main_connection, const Descriptor& userfault,
                                 std::span<const DoorRange> joined);

}  // namespace farside::far_preload
