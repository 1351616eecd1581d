#include "classify.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "host_memory.h"
#include "mounts.h"
#include "node_client.h"
#include "process.h"
#include "system_call.h"
#include "writers.h"

namespace farside::cache_preload {

namespace {

namespace node_socket = cache::node_socket;

constexpr std::int64_t kSecond_ns = 1'000'000'000;

// A file may change twice within one tick of its time stamps, unseen. One that changed this long ago will show it.
constexpr std::int64_t kSettled_ns = 2 * kSecond_ns;

// How long a change of an open file may go unnoticed.
constexpr std::uint64_t kRecheck_ns = 100'000'000;

std::int64_t in_ns(const timespec& time) { return time.tv_sec * kSecond_ns + time.tv_nsec; }

cache::FileIdentity version_of(const struct stat64& found) {
  return {.file_system = 0,
          .inode = found.st_ino,
          .bytes = static_cast<std::uint64_t>(found.st_size),
          .modified_ns = in_ns(found.st_mtim),
          .changed_ns = in_ns(found.st_ctim)};
}

bool is_settled(const cache::FileIdentity& version) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return std::max(version.modified_ns, version.changed_ns) <= in_ns(now) - kSettled_ns;
}

bool is_under_a_named_directory(int fd) {
  char link[32];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  char path[PATH_MAX + 1];
  const long length = system_call(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX);
  if (length <= 0) return false;
  path[length] = '\0';
  return process::is_under(path);
}

Kind passing(const HostMemory& memory, std::uint64_t node_socket::HitStripe::*reason) {
  memory.count(reason, 1);
  return Kind::passing;
}

Kind classify(int fd, CachedFile& file) {
  const long flags = system_call(SYS_fcntl, fd, F_GETFL);
  struct stat64 found {};
  if (flags < 0 || system_call(SYS_fstat, fd, &found) != 0 || !process::is_ours()) return Kind::unknown;
  if ((flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY || !S_ISREG(found.st_mode)) return Kind::passing;
  if (found.st_size == 0 || !is_under_a_named_directory(fd)) return Kind::passing;
  const HostMemory* const memory = node::memory();
  if (memory == nullptr) return Kind::passing;
  if ((flags & O_DIRECT) != 0) return passing(*memory, &node_socket::HitStripe::direct);
  if ((flags & O_ACCMODE) != O_RDONLY) return passing(*memory, &node_socket::HitStripe::writable);
  file.identity = version_of(found);
  if (!is_settled(file.identity)) return passing(*memory, &node_socket::HitStripe::fresh);
  file.identity.file_system = mounts::tag_of(fd);
  if (file.identity.file_system == 0) return Kind::passing;
  file.hash = cache::file_hash(file.identity);
  return Kind::cached;
}

CachedDescriptor examine(int fd, Descriptor& place, std::uint64_t changes) {
  const std::uint64_t now_ns = coarse_now_ns();
  const Descriptor::Look before = place.examine();
  std::uint64_t checked_ns = place.checked_ns.load();
  CachedFile file{};
  const Kind found = before.kind() == Kind::unknown ? classify(fd, file) : Kind::unknown;
  if (found == Kind::unknown) return {};
  if (found == Kind::cached) {
    place.expected_offset.store(static_cast<std::uint64_t>(system_call(SYS_lseek, fd, 0, SEEK_CUR)));
    place.checked_ns.compare_exchange_strong(checked_ns, now_ns);
  }
  const Descriptor::Look after = place.record(before, found, file);
  return found == Kind::cached ? CachedDescriptor{&place, changes, after, file, now_ns} : CachedDescriptor{};
}

bool is_unchanged(int fd, const CachedDescriptor& cached) {
  std::uint64_t checked_ns = cached.place->checked_ns.load(std::memory_order_acquire);
  const bool is_recent = cached.now_ns - checked_ns < kRecheck_ns;
  if (is_recent && !may_be_written_here(cached.file.identity.inode)) return true;
  struct stat64 found {};
  if (system_call(SYS_fstat, fd, &found) != 0) return false;
  cache::FileIdentity version = version_of(found);
  version.file_system = cached.file.identity.file_system;
  if (version != cached.file.identity) return false;
  cached.place->checked_ns.compare_exchange_strong(checked_ns, cached.now_ns);  // unless it was distrusted meanwhile
  return true;
}

}  // namespace

void note_mapping(int fd, std::size_t bytes) {
  if (!process::is_active() || !process::is_ours() || !is_under_a_named_directory(fd)) return;
  const HostMemory* const memory = node::memory();
  if (memory == nullptr) return;
  memory->count(&node_socket::HitStripe::mappings, 1);
  memory->count(&node_socket::HitStripe::mapped_bytes, bytes);
}

CachedDescriptor cached_descriptor(int fd) {
  CachedDescriptor cached;  // returned in place: a copy of what was just put together would stall
  Descriptor* const place = process::is_active() ? descriptor(fd) : nullptr;
  if (place == nullptr) return cached;
  cached.changes = place->changes();
  cached.seen = place->look(cached.file);
  if (cached.seen.kind() == Kind::unknown) {
    cached = examine(fd, *place, cached.changes);
  } else if (cached.seen.kind() == Kind::cached) {
    cached.place = place;
    cached.now_ns = coarse_now_ns();
    if (!is_unchanged(fd, cached)) {
      cached.pass();
      cached.place = nullptr;
    }
  }
  return cached;
}

}  // namespace farside::cache_preload
