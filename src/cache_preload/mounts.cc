#include "mounts.h"

#include <atomic>
#include <iterator>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node_client.h"
#include "own_descriptors.h"
#include "system_call.h"

namespace farside::cache_preload::mounts {

namespace {

constexpr unsigned kUniqueMountId = 0x4000;  // STATX_MNT_ID_UNIQUE of Linux 6.8, which older headers lack

// A pair is whole when its words fit together: threads may store different pairs at once.
struct Known {
  std::atomic<std::uint64_t> tag;
  std::atomic<std::uint64_t> check;  // the mount's id ^ the tag

  [[nodiscard]] bool recall(std::uint64_t mount, std::uint64_t& into) const {
    into = tag.load(std::memory_order_relaxed);
    return (into ^ check.load(std::memory_order_relaxed)) == mount;
  }
  void remember(std::uint64_t mount, std::uint64_t new_tag) {
    tag.store(new_tag, std::memory_order_relaxed);
    check.store(new_tag ^ mount, std::memory_order_relaxed);
  }
};
constinit Known known[16];  // no mount has the id 0

Known& place_of(std::uint64_t mount) { return known[mount % std::size(known)]; }

void forget_all() {
  for (Known& place : known) place.remember(0, 0);
}

// False when the node does not answer, or has no answer yet.
bool ask(int fd, std::uint64_t& tag) {
  cache::node_socket::Reply reply{};
  tag = 0;
  if (!node::ask(cache::node_socket::RequestKind::identify, {}, fd, reply)) return false;
  if (reply.answer == cache::node_socket::Answer::here) tag = reply.file_system;
  return reply.answer != cache::node_socket::Answer::busy;
}

// The table of mounts of the namespace in which it was opened, which tells by poll, once, that it changed. Used by one
// thread at a time, and never waited for.
class Table {
 public:
  [[nodiscard]] bool try_lock() { return !locked_.exchange(true, std::memory_order_acquire); }
  void unlock() { locked_.store(false, std::memory_order_release); }

  /// Whether no mount came or went since the last call.
  bool is_as_before() {
    if (!is_ours()) {
      open();
      return false;
    }
    pollfd event{fd_, POLLPRI, 0};
    return system_call(SYS_poll, &event, 1, 0) == 0;
  }

  [[nodiscard]] bool lists(std::uint64_t mount) const {
    if (system_call(SYS_lseek, fd_, 0, SEEK_SET) != 0) return false;
    char part[1024];
    std::uint64_t number = 0;
    bool in_number = true;  // each line begins with a mount's id and a blank
    for (long bytes = 0; (bytes = system_call(SYS_read, fd_, part, sizeof part)) > 0;) {
      for (const char* letter = part; letter != part + bytes; ++letter) {
        if (*letter == '\n') {
          number = 0;
          in_number = true;
        } else if (in_number && *letter == ' ') {
          if (number == mount) return true;
          in_number = false;
        } else if (in_number) {
          number = number * 10 + static_cast<unsigned>(*letter - '0');
        }
      }
    }
    return false;
  }

  void close() {
    if (is_ours()) close_descriptor(fd_);
    fd_ = -1;
  }

 private:
  // A program may close all descriptors, and open its own under the same numbers.
  [[nodiscard]] bool is_ours() const {
    struct stat64 found {};
    return fd_ >= 0 && system_call(SYS_fstat, fd_, &found) == 0 && found.st_dev == device_ && found.st_ino == inode_;
  }

  void open() {
    const long lowest = system_call(SYS_openat, AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    fd_ = lowest < 0 ? -1 : moved_high(static_cast<int>(lowest));
    struct stat64 found {};
    if (fd_ < 0 || system_call(SYS_fstat, fd_, &found) != 0) return;
    device_ = found.st_dev;
    inode_ = found.st_ino;
  }

  std::atomic<bool> locked_{false};
  int fd_ = -1;
  dev_t device_ = 0;
  ino64_t inode_ = 0;
};
constinit Table table;

std::uint64_t tag_of_unique(std::uint64_t mount, int fd) {
  std::uint64_t tag = 0;
  if (!place_of(mount).recall(mount, tag) && ask(fd, tag)) place_of(mount).remember(mount, tag);
  return tag;
}

// Ids are given again. A mount is the one that was asked about if it is listed in the table, which has not changed.
std::uint64_t tag_of_reusable(std::uint64_t mount, int fd) {
  std::uint64_t tag = 0;
  if (!table.try_lock()) {
    ask(fd, tag);
    return tag;
  }
  if (!table.is_as_before()) forget_all();
  if (!place_of(mount).recall(mount, tag) && ask(fd, tag) && table.lists(mount)) place_of(mount).remember(mount, tag);
  table.unlock();
  return tag;
}

}  // namespace

std::uint64_t tag_of(int fd) {
  constexpr unsigned kWanted = kUniqueMountId | STATX_MNT_ID;
  struct statx found {};
  if (system_call(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kWanted, &found) != 0) return 0;
  if ((found.stx_mask & kWanted) == 0) return 0;
  return (found.stx_mask & kUniqueMountId) != 0 ? tag_of_unique(found.stx_mnt_id, fd)
                                                : tag_of_reusable(found.stx_mnt_id, fd);
}

void forget(std::uint64_t tag) {
  for (Known& place : known) {
    if (place.tag.load(std::memory_order_relaxed) == tag) place.remember(0, 0);
  }
}

// The parent and the child would take each other's news of the table.
void after_fork() {
  table.close();
  table.unlock();
  forget_all();
}

}  // namespace farside::cache_preload::mounts
