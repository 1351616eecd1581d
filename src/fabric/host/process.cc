#include "fabric/host/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "fabric/clock.h"
#include "fabric/time_limits.h"

namespace farside {

namespace {

/// Field 22 of /proc/<pid>/stat. Nothing, with errno set, when that cannot be read: which does not say that the process
/// has ended.
std::optional<std::uint64_t> start_ticks(pid_t pid) {
  const Fd file(::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 2048> text{};
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  if (bytes < 0) return std::nullopt;
  const std::string stat(text.data(), static_cast<std::size_t>(bytes));
  const std::size_t name_end = stat.rfind(')');  // field 2 is the program's name and may contain anything
  std::istringstream fields(name_end == std::string::npos ? "" : stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t ticks = 0;
  if (fields >> ticks) return ticks;
  errno = EBADMSG;
  return std::nullopt;
}

/// Every thread of it has, so that its memory is gone. A process whose first thread alone has ended is a zombie by its
/// stat, and not by this.
bool has_ended(const Fd& pidfd) {
  pollfd event{pidfd.get(), POLLIN, 0};
  return ::poll(&event, 1, 0) > 0;
}

/// open_process, again until it can be said whether the process lives. Nothing when it cannot until the deadline.
std::optional<Fd> open_until(const ProcessId& process, Deadline deadline) {
  for (;;) {
    try {
      return open_process(process);
    } catch (const Error& error) {
      if (monotonic_now() + fabric::time_limits::kBetweenLooksAtProcess >= deadline.at) {
        log::warn("process " + std::to_string(process.pid) + " may live: " + error.what());
        return std::nullopt;
      }
    }
    std::this_thread::sleep_for(fabric::time_limits::kBetweenLooksAtProcess);
  }
}

}  // namespace

ProcessId this_process() {
  const pid_t pid = ::getpid();
  const std::optional<std::uint64_t> ticks = start_ticks(pid);
  if (!ticks) throw Error({"read", "/proc/" + std::to_string(pid) + "/stat", "it is not readable", "mount /proc"});
  return {pid, *ticks};
}

Fd open_process(const ProcessId& process) {
  const std::string on = "process " + std::to_string(process.pid);
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!pidfd) {
    // The last two: the pid is now a thread's, or names a process group that outlived its leader. No process has it.
    if (errno == ESRCH || errno == EINVAL || errno == ENOENT) return {};
    throw errno_error("watch", on, "check ulimit -n");
  }
  const std::optional<std::uint64_t> ticks = start_ticks(process.pid);
  const int why = errno;
  // Only now: if the process that the pidfd names lives still, the stat was that of this one.
  if (has_ended(pidfd) || (ticks && *ticks != process.start_ticks)) return {};
  if (ticks) return pidfd;
  errno = why;
  throw errno_error("read the start time of", on, "check ulimit -n, and that /proc shows it");
}

Outcome kill_and_wait(const ProcessId& process, const std::string& why, Deadline deadline) {
  const std::string on = "process " + std::to_string(process.pid);
  const std::optional<Fd> opened = open_until(process, deadline);
  if (!opened) return Outcome::timed_out;
  const Fd& pidfd = *opened;
  if (!pidfd) return Outcome::done;
  log::warn("kills " + on + ": " + why);
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) != 0 && errno != ESRCH) {
    throw errno_error("kill", on);
  }
  for (;;) {
    const Duration left = deadline.at - monotonic_now();
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd event{pidfd.get(), POLLIN, 0};
    const int ready = ::poll(&event, 1, static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, 60'000)));
    if (ready > 0) return Outcome::done;
    if (ready < 0 && errno != EINTR) throw errno_error("wait for the end of", on);
    if (left <= Duration::zero()) return Outcome::timed_out;
  }
}

}  // namespace farside
