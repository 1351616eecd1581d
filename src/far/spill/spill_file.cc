#include "far/spill/spill_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "base/assert.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

constexpr std::size_t kMaxQueued = 4096;          // items
constexpr std::uint64_t kDirtyBytes = 8U << 20U;  // that the kernel keeps in memory, which is short

/// 0, or errno.
int write_all(int file, const std::byte* from, std::uint64_t bytes, std::uint64_t offset) {
  while (bytes != 0) {
    const ssize_t written = ::pwrite(file, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? EIO : errno;
    from += written;
    offset += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::uint64_t>(written);
  }
  return 0;
}

/// Keeps the room in the file, where the file system can.
int write_zeros(int file, std::uint64_t offset, std::uint64_t bytes) {
  for (const int mode : {FALLOC_FL_ZERO_RANGE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE}) {
    if (::fallocate(file, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EOPNOTSUPP) return errno;
  }
  static constexpr std::array<std::byte, 64U << 10U> kZeros{};
  for (std::uint64_t done = 0; done < bytes; done += kZeros.size()) {
    const std::uint64_t here = std::min<std::uint64_t>(kZeros.size(), bytes - done);
    if (const int failed = write_all(file, kZeros.data(), here, offset + done); failed != 0) return failed;
  }
  return 0;
}

Fd make_file(const std::filesystem::path& path, std::uint64_t bytes) {
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file && errno == EEXIST) {
    throw UsageError(
        {"spill to", path, "it is there already, and what it has would be lost", "name a file that is not"});
  }
  if (!file) throw errno_error("spill to", path);
  if (::unlink(path.c_str()) != 0) throw errno_error("take the name away from", path);
  // Room is taken now, so that no write fails for want of it later.
  const auto size = static_cast<off_t>(bytes);
  if (::fallocate(file.get(), 0, 0, size) != 0) {
    if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) {
      throw Error({"spill to", path, "the disk has no room for " + format_bytes(bytes) + ": " + std::strerror(errno),
                   "name a file on another one, or take less far memory"});
    }
    if (errno != EOPNOTSUPP) throw errno_error("take room for", path);
    if (::ftruncate(file.get(), size) != 0) throw errno_error("take room for", path);
  }
  return file;
}

}  // namespace

SpillFile::SpillFile(const std::filesystem::path& path, std::uint64_t bytes, std::size_t queue_bytes)
    : name_(path), file_(make_file(path, bytes)), ring_(queue_bytes) {
  carrier_ = std::jthread([this](const std::stop_token& stop) { carry(stop); });
}

SpillFile::~SpillFile() = default;

// ---- To put

SpillFile::Put SpillFile::put(std::uint64_t offset, std::span<const std::byte> bytes, Clock::time_point deadline) {
  const std::uint64_t at_once = ring_.size() / 4;
  for (std::uint64_t done = 0; done < bytes.size(); done += at_once) {
    const std::uint64_t here = std::min<std::uint64_t>(at_once, bytes.size() - done);
    const Put put = put_piece({offset + done, here, false}, bytes.data() + done, deadline);
    if (put != Put::queued) return put;
  }
  return Put::queued;
}

SpillFile::Put SpillFile::clear(std::uint64_t offset, std::uint64_t bytes, Clock::time_point deadline) {
  return bytes == 0 ? Put::queued : put_piece({offset, bytes, true}, nullptr, deadline);
}

bool SpillFile::has_room_for(const Item& item) const {
  return queue_.size() < kMaxQueued && (item.is_zero || end_ - first_ + item.bytes <= ring_.size());
}

SpillFile::Put SpillFile::put_piece(const Item& item, const std::byte* data, Clock::time_point deadline) {
  MutexLock lock(mutex_);
  (void)changed_.wait_until(lock, deadline, [&]() REQUIRES(mutex_) { return failing_ || has_room_for(item); });
  if (failing_) return Put::failed;
  if (!has_room_for(item)) return Put::late;
  if (!item.is_zero) {
    const std::uint64_t at = end_ % ring_.size();
    const std::uint64_t before_end = std::min(item.bytes, ring_.size() - at);
    std::memcpy(ring_.data() + at, data, before_end);
    std::memcpy(ring_.data(), data + before_end, item.bytes - before_end);
    end_ += item.bytes;
  }
  queue_.push_back(item);
  ++put_;
  changed_.notify_all();
  return Put::queued;
}

// ---- To carry

void SpillFile::carry(const std::stop_token& stop) {
  for (;;) {
    Item item{};
    std::uint64_t first = 0;
    {
      MutexLock lock(mutex_);
      if (!changed_.wait(lock, stop, [this]() REQUIRES(mutex_) { return !queue_.empty(); }) || stop.stop_requested())
        return;
      item = queue_.front();
      first = first_;
    }
    const int failed = carry_one(item, first);
    MutexLock lock(mutex_);
    failing_ = failed != 0;
    if (failing_) {
      log_.warn("cannot write to the spill file " + name_ + ": " + std::strerror(failed) +
                (unsure_ ? "; what it has is not to be relied on, and nothing can be written to far memory any more"
                         : "; nothing can be written to far memory till that is repaired"));
      changed_.notify_all();
      if (unsure_) return;
      (void)changed_.wait_for(lock, stop, time_limits::kDiskRetry, [] { return false; });
      if (stop.stop_requested()) return;
      continue;
    }
    if (!item.is_zero) first_ += item.bytes;
    queue_.pop_front();
    ++done_;
    assert_that(put_ - done_ == queue_.size(), "what was put and is not done is queued");
    assert_that(!queue_.empty() || first_ == end_, "an empty queue has no bytes");
    changed_.notify_all();
  }
}

// The bytes of an item that is queued stay as they are.
int SpillFile::carry_one(const Item& item, std::uint64_t first) {
  if (item.is_zero) return write_zeros(file_.get(), item.offset, item.bytes);
  const std::uint64_t at = first % ring_.size();
  const std::uint64_t before_end = std::min(item.bytes, ring_.size() - at);
  int failed = write_all(file_.get(), ring_.data() + at, before_end, item.offset);
  if (failed == 0) failed = write_all(file_.get(), ring_.data(), item.bytes - before_end, item.offset + before_end);
  return failed == 0 ? let_go_of_cache(item.bytes) : failed;
}

// The kernel's cache of the file is memory of this machine.
int SpillFile::let_go_of_cache(std::uint64_t written_bytes) {
  dirty_bytes_ += written_bytes;
  if (dirty_bytes_ < kDirtyBytes) return 0;
  if (::fdatasync(file_.get()) != 0) {
    unsure_ = true;
    return errno;
  }
  dirty_bytes_ = 0;
  return ::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
}

// ---- To take

bool SpillFile::take(std::uint64_t offset, std::span<std::byte> into, Clock::time_point deadline) {
  {
    MutexLock lock(mutex_);
    const std::uint64_t before = put_;
    if (!changed_.wait_until(lock, deadline, [&]() REQUIRES(mutex_) { return done_ >= before; })) return false;
  }
  while (!into.empty()) {
    const ssize_t found = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) {
      log_.warn("cannot read from the spill file " + name_ + ": " + (found == 0 ? "it ends" : std::strerror(errno)));
      return false;
    }
    offset += static_cast<std::uint64_t>(found);
    into = into.subspan(static_cast<std::size_t>(found));
  }
  return true;
}

}  // namespace farside::far
