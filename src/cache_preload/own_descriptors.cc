#include "own_descriptors.h"

#include <algorithm>
#include <cstdint>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "system_call.h"

namespace farside::cache_preload {

namespace {

constexpr int kHighDescriptor = 900;  // a program expects the lowest free number for itself

}  // namespace

int moved_high(int fd) {
  rlimit64 limit{};
  system_call(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
  const int room = static_cast<int>(std::min<std::uint64_t>(limit.rlim_cur, kHighDescriptor + 64)) - 64;
  const long high = system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, std::max(room, 0));
  close_descriptor(fd);
  return static_cast<int>(high);
}

void close_descriptor(int fd) {
  if (fd >= 0) system_call(SYS_close, fd);
}

}  // namespace farside::cache_preload
