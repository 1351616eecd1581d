// process_watch.h — follows a process of this host that another one started.
#pragma once

#include <chrono>
#include <utility>

#include <sys/types.h>

#include "farside/base/fd.h"

namespace farside::node {

/// Watches the process that has the pid now. A later process with the same pid is not mistaken for it.
class ProcessWatch {
 public:
  explicit ProcessWatch(pid_t pid);
  /// Watches the process of a pidfd. An empty one: it has ended.
  explicit ProcessWatch(Fd pidfd) noexcept : pidfd_(std::move(pidfd)) {}

  [[nodiscard]] bool ended() const { return wait(std::chrono::milliseconds(0)); }
  /// True when the process has ended by then.
  [[nodiscard]] bool wait(std::chrono::milliseconds timeout) const;
  void signal(int number) const;

 private:
  Fd pidfd_;  // none when the process had ended already
};

}  // namespace farside::node
