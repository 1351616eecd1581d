// death_watch.h — learns of a process's death through a pidfd, as a team does for the ranks of its host.
#pragma once

#include <functional>
#include <thread>

#include <sys/types.h>

#include "farside/base/fd.h"

namespace farside::test {

/// Calls `on_death`, on a thread of its own, once the process has ended.
class DeathWatch {
 public:
  DeathWatch(pid_t pid, std::function<void()> on_death);
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

 private:
  Fd pidfd_;
  Fd stop_;
  std::thread thread_;
};

}  // namespace farside::test
