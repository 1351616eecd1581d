// process.h — processes of this host, named so that a reused pid is never mistaken for the old process.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

#include "farside/base/fd.h"
#include "farside/fabric/channel.h"

namespace farside {

struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< since boot, as /proc/<pid>/stat has it

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

[[nodiscard]] ProcessId this_process();

/// A pidfd: readable once every thread of the process has ended, and so its memory is gone. Empty only when that is
/// certain to have happened already: no process has the pid, or one that started at another time. Throws Error when it
/// cannot be found out, for want of a descriptor or where /proc does not show the process: it may live then.
[[nodiscard]] Fd open_process(const ProcessId& process);

/// Kills the process, logs that with `why`, and waits until the kernel has taken its memory away. Done, too, when it
/// was gone already. On timed_out it may live: it hangs in the kernel, or nothing could be found out about it until the
/// deadline.
[[nodiscard]] Outcome kill_and_wait(const ProcessId& process, const std::string& why, Deadline deadline);

}  // namespace farside
