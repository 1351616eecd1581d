// process.h — processes of this host, named so that a reused pid is never mistaken for the old process.
#pragma once

#include <cstdint>

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

/// A pidfd: readable once the process has ended. Empty when it is gone already.
[[nodiscard]] Fd open_process(const ProcessId& process);

/// Kills the process and waits until the kernel has taken its memory away. Done, too, when it was gone already.
[[nodiscard]] Outcome kill_and_wait(const ProcessId& process, Deadline deadline);

}  // namespace farside
