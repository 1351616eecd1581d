#include "node/files/stores.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace farside::node {

namespace {

// One call of write moves the times when it begins and may go on for long. Where writers cannot be seen, none is
// expected to take longer.
constexpr std::int64_t kMaxWrite_ns = 60'000'000'000;

enum class Writers { none, some, unknown };

// A read lease is granted only while no descriptor and no mapping of this host may write the file, and only to the
// file's owner or with CAP_LEASE. It is given back at once. Until then it makes an open for writing wait, so nothing
// else is done meanwhile. It belongs to an open file of our own: the program may hold leases of its descriptor.
Writers look_for_writers(const Fd& file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const Fd own(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  // A breaker's signal would end this process if it were the usual SIGIO; SIGURG is ignored.
  if (!own || ::fcntl(own.get(), F_SETSIG, SIGURG) != 0) return Writers::unknown;
  if (::fcntl(own.get(), F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN ? Writers::some : Writers::unknown;
  ::fcntl(own.get(), F_SETLEASE, F_UNLCK);
  return Writers::none;
}

bool changed_long_ago(const cache::FileIdentity& version) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t now_ns = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  return std::max(version.modified_ns, version.changed_ns) <= now_ns - kMaxWrite_ns;
}

// Afterwards the pages are clean, and each mapping's next store into one of them faults.
bool write_back(const Fd& file, TimesFrom times, std::uint64_t begin, std::uint64_t bytes) {
  if (times == TimesFrom::overlay) return ::fdatasync(file.get()) == 0;  // its pages are another inode's
  constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  return ::sync_file_range(file.get(), static_cast<off_t>(begin), static_cast<off_t>(bytes), kAll) == 0;
}

}  // namespace

bool stores_will_show(const Fd& file, const cache::FileIdentity& version, TimesFrom times, std::uint64_t begin,
                      std::uint64_t bytes) {
  if (times != TimesFrom::server) {  // a server's move with each of its writes, and leases are between it and others
    const Writers writers = look_for_writers(file);
    if (writers == Writers::some || (writers == Writers::unknown && !changed_long_ago(version))) return false;
    // On overlay a mapping may outlive its descriptor unseen.
    if (writers == Writers::none && times == TimesFrom::kernel) return true;
  }
  return write_back(file, times, begin, bytes);
}

}  // namespace farside::node
