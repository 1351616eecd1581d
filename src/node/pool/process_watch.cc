#include "node/pool/process_watch.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::node {

ProcessWatch::ProcessWatch(pid_t pid) : pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
  if (!pidfd_ && errno != ESRCH) throw errno_error("watch process", std::to_string(pid), "raise ulimit -n");
}

bool ProcessWatch::wait(std::chrono::milliseconds timeout) const {
  if (!pidfd_) return true;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd event{pidfd_.get(), POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) > 0) return true;
    if (left.count() <= 0) return false;
  }
}

void ProcessWatch::signal(int number) const {
  if (pidfd_) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0);  // fails only when it has ended
}

}  // namespace farside::node
