// dropper.h — the one thread that we have in a program: it takes pages away when it is told to.
//
// It is none of libc's, has a table of descriptors of its own, and blocks all signals, so the program sees nothing of
// it. When farside far is gone it kills the process: no process could fetch a page any more.
#pragma once

#include "connection.h"

namespace farside::far_preload {

/// Starts it, with all signals blocked in the caller, and returns when it has said `packet`, which is `join`, and has
/// the answer, which takes its place. It joins itself since pages may be asked of it from then on, of this thread's
/// stack too. It takes away nothing but parts of the ranges in `packet`. One in each process: a child of fork has its
/// parent's stack for it, and starts its own there. 0, or -errno; -EPIPE when farside far is gone.
[[nodiscard]] long start_dropper(const Descriptor& main_connection, const Descriptor& userfault, DaemonPacket& packet);

}  // namespace farside::far_preload
