#include "fabric/host/process.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "fabric/clock.h"

namespace farside {

namespace {

/// Field 22 of /proc/<pid>/stat; nothing when there is no such process.
std::optional<std::uint64_t> start_ticks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::ostringstream content;
  content << file.rdbuf();  // an iterator would throw when the process ends just now
  const std::string stat = content.str();
  const std::size_t name_end = stat.rfind(')');  // field 2 is the program's name and may contain anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return ticks;
}

}  // namespace

ProcessId this_process() {
  const pid_t pid = ::getpid();
  const std::optional<std::uint64_t> ticks = start_ticks(pid);
  if (!ticks) throw Error({"read", "/proc/" + std::to_string(pid) + "/stat", "it is not readable", "mount /proc"});
  return {pid, *ticks};
}

Fd open_process(const ProcessId& process) {
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!pidfd) {
    if (errno == ESRCH) return {};
    throw errno_error("watch", "process " + std::to_string(process.pid));
  }
  // The pidfd pins whoever has the pid now; only then is it worth asking whether that is still the one we mean.
  if (start_ticks(process.pid) != process.start_ticks) return {};
  return pidfd;
}

Outcome kill_and_wait(const ProcessId& process, Deadline deadline) {
  const std::string on = "process " + std::to_string(process.pid);
  const Fd pidfd = open_process(process);
  if (!pidfd) return Outcome::done;
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
