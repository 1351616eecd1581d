#include "cli/machine_checks.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"
#include "farside/base/memory.h"
#include "farside/base/units.h"

#include "fabric/ucx/devices.h"
#include "net/local_socket.h"
#include "net/runtime_dir.h"

namespace farside::cli {

namespace {

using Verdict = Check::Verdict;

Check direct_transport() {
  try {
    const Fd file = make_memfd("farside doctor", 4096);
    const Mapping mapping(file, 4096, Mapping::Access::read_write);
    return {"transport", "direct", Verdict::good, "shared memory between processes of this machine", ""};
  } catch (const std::exception& error) {
    return {"transport", "direct", Verdict::missing, error.what(), "farside needs Linux with memfd_create"};
  }
}

Check ucx_transport() {
  std::map<std::string, std::string> devices;  // by transport
  for (const UcxDevice& device : list_ucx_devices()) {
    if (device.network) devices[device.transport] += " " + device.device;
  }
  std::string found = "UCX " + ucx_version();
  for (const auto& [transport, names] : devices) found.append(", ").append(transport).append(":").append(names);
  if (devices.empty()) {
    return {"transport", "ucx", Verdict::limited, found + ", no network device",
            "bring a network interface up to join hosts into one pool"};
  }
  return {"transport", "ucx", Verdict::good, found, ""};
}

std::string limit_text(rlim_t limit, const std::function<std::string(std::uint64_t)>& format) {
  return limit == RLIM_INFINITY ? "unlimited" : format(limit);
}

Check open_files() {
  constexpr rlim_t kWanted = 12'288;  // a node takes in a third as many programs, and at most 4096 (socket_server.cc)
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string found = limit_text(limit.rlim_max, [](std::uint64_t count) { return std::to_string(count); });
  if (limit.rlim_max >= kWanted) return {"limit", "open files", Verdict::good, found, ""};
  return {"limit", "open files", Verdict::limited, found,
          "raise the hard limit (ulimit -Hn) to 12288 to serve thousands of programs at once"};
}

Check locked_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string found = limit_text(limit.rlim_cur, format_bytes);
  if (limit.rlim_cur == RLIM_INFINITY) return {"limit", "locked memory", Verdict::good, found, ""};
  return {"limit", "locked memory", Verdict::limited, found,
          "enough for one machine and for TCP; for InfiniBand or RoCE set ulimit -l unlimited"};
}

Check free_memory() {
  constexpr std::uint64_t kWanted = 1U << 30U;
  const std::uint64_t bytes = available_memory_bytes();
  const std::string found = format_bytes(bytes >> 20U << 20U) + " available";
  if (bytes >= kWanted) return {"limit", "memory", Verdict::good, found, ""};
  return {"limit", "memory", Verdict::limited, found, "give farside up less with --cache, or free some"};
}

Check runtime_directory() {
  try {
    const std::filesystem::path directory = net::runtime_dir();
    (void)net::local_address(directory / "job-XXXXXX" / "coordinator");  // of farside run; none is longer
    return {"files", "runtime directory", Verdict::good, directory, ""};
  } catch (const Error& error) {
    const Failure& failure = error.failure();
    return {"files", "runtime directory", Verdict::missing, failure.on + ": " + failure.why, failure.remedy};
  }
}

Check process_watching() {
  const Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (self) return {"kernel", "pidfd", Verdict::good, "a dead member is noticed at once", ""};
  return {"kernel", "pidfd", Verdict::missing, "pidfd_open does not work", "use Linux 5.8 or newer"};
}

Check mount_ids() {
  struct statx status {};
  const bool works = ::statx(AT_FDCWD, "/", 0, STATX_MNT_ID, &status) == 0 && (status.stx_mask & STATX_MNT_ID) != 0;
  if (works) return {"kernel", "mount ids", Verdict::good, "file systems can be told apart", ""};
  return {"kernel", "mount ids", Verdict::missing, "statx gives none: no file would be cached",
          "use Linux 5.8 or newer"};
}

Check user_faults() {
  const Fd faults(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS;
  const bool works = faults && ::ioctl(faults.get(), UFFDIO_API, &api) == 0;
  if (works) return {"kernel", "userfaultfd", Verdict::good, "with SIGBUS mode", ""};
  return {"kernel", "userfaultfd", Verdict::limited, faults ? "without SIGBUS mode" : "not usable by this user",
          "needed for far memory only: sysctl vm.unprivileged_userfaultfd=1, or a kernel with userfaultfd"};
}

Check device(const std::string& name, const std::string& path, const std::string& advice) {
  if (::access(path.c_str(), R_OK | W_OK) == 0) return {"kernel", name, Verdict::good, path, ""};
  return {"kernel", name, Verdict::limited, std::filesystem::exists(path) ? path + " is not ours to use" : "no " + path,
          advice};
}

}  // namespace

std::vector<Check> check_machine() {
  return {
      direct_transport(),
      ucx_transport(),
      open_files(),
      locked_memory(),
      free_memory(),
      runtime_directory(),
      process_watching(),
      mount_ids(),
      user_faults(),
      device("nbd", "/dev/nbd0", "needed only to swap on far memory: modprobe nbd, as root"),
      device("fuse", "/dev/fuse", "needed by farside's own tests only: modprobe fuse"),
  };
}

}  // namespace farside::cli
