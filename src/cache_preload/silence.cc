#include "silence.h"

#include <cstdint>
#include <cstring>
#include <ctime>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "farside/cache/node_socket.h"
#include "farside/cache/time_limits.h"

#include "own_descriptors.h"
#include "system_call.h"

namespace farside::cache_preload::silence {

namespace {

constinit char path[sizeof(sockaddr_un::sun_path) + 16] = {};

constexpr time_t kRetry_s = std::chrono::duration_cast<std::chrono::seconds>(cache::time_limits::kSilenceRetry).count();

time_t now_s() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}

// Until when the node is to be left alone; 0: nothing was noted, or the node is gone.
time_t until_s() {
  struct stat64 found {};
  if (system_call(SYS_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  return found.st_mtim.tv_sec;
}

Noted note(time_t until) {
  bool is_first = true;
  long fd = system_call(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd == -EEXIST) {
    is_first = false;
    fd = system_call(SYS_openat, AT_FDCWD, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  }
  if (fd < 0) return Noted::not_possible;
  const timespec times[2] = {{until, 0}, {until, 0}};
  const long changed = system_call(SYS_utimensat, fd, nullptr, times, 0);
  close_descriptor(static_cast<int>(fd));
  if (changed != 0) return Noted::not_possible;
  return is_first ? Noted::first : Noted::again;
}

}  // namespace

void name(const char* socket_path) {
  strncpy(path, socket_path, sizeof(sockaddr_un::sun_path) - 1);
  strcat(path, cache::node_socket::kSilenceSuffix);  // NOLINT: there is room
  static_assert(sizeof path - sizeof(sockaddr_un::sun_path) > 8);
}

// A time that is further away than is ever noted was noted by a clock that has been set since.
bool is_noted() {
  const time_t until = until_s();
  const time_t now = now_s();
  return until > now && until <= now + kRetry_s;
}

bool take_retry() { return until_s() != 0 && !is_noted() && note(now_s() + kRetry_s) == Noted::again; }

Noted note_silent() { return note(now_s() + kRetry_s); }

Noted note_gone() { return note(0); }

void take_back() { system_call(SYS_unlinkat, AT_FDCWD, path, 0); }

}  // namespace farside::cache_preload::silence
