#include "tests/support/death_watch.h"

#include <array>
#include <cerrno>
#include <string>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::test {

DeathWatch::DeathWatch(pid_t pid, std::function<void()> on_death)
    : pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!pidfd_ || !stop_) throw errno_error("watch", "process " + std::to_string(pid));
  thread_ = std::thread([this, on_death = std::move(on_death)] {
    std::array<pollfd, 2> events{{{pidfd_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
    while (::poll(events.data(), events.size(), -1) < 0 && errno == EINTR) {
    }
    if (events[0].revents != 0) on_death();
  });
}

DeathWatch::~DeathWatch() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

}  // namespace farside::test
