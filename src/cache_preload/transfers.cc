#include "transfers.h"

#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "reads.h"
#include "self_copying.h"
#include "system_call.h"

namespace farside::cache_preload {

namespace {

// Not the slots themselves: a block may be recycled while the kernel takes it.
class Buffer {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 10U;
  Buffer() : address_(system_call(SYS_mmap, 0, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Buffer() {
    if (*this) system_call(SYS_munmap, address_, kBytes);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  explicit operator bool() const { return address_ > 0; }
  [[nodiscard]] std::byte* get() const { return reinterpret_cast<std::byte*>(address_); }  // NOLINT

 private:
  long address_;
};

// One end of a copy: at an offset that the caller keeps, or else at the descriptor's own.
struct End {
  int fd;
  off_t* offset;
};

off_t position(const End& end) {
  return end.offset != nullptr ? *end.offset : system_call(SYS_lseek, end.fd, 0, SEEK_CUR);
}

long write_to(const End& end, const std::byte* bytes, std::size_t count, std::size_t done) {
  if (end.offset == nullptr) return system_call(SYS_write, end.fd, bytes, count);
  return system_call(SYS_pwrite64, end.fd, bytes, count, *end.offset + static_cast<off_t>(done));
}

bool lies_where_copies_are_made(int fd) {
  struct statfs64 found {};
  return system_call(SYS_fstatfs, fd, &found) == 0 && may_copy_itself(static_cast<std::uint32_t>(found.f_type));
}

// Copies until all is written or the other side takes no more.
ssize_t copy(const CachedDescriptor& cached, const End& from, const End& to, std::size_t bytes) {
  const std::uint64_t size = cached.file.identity.bytes;
  const ByNumber from_number(cached);
  std::optional<ByNumber> to_number;
  if (Descriptor* const place = descriptor(to.fd)) {
    place->examine();  // from here on its changes are counted
    to_number.emplace(*place, place->changes());
  }
  const off_t start = from_number ? position(from) : -1;
  const Buffer buffer;
  if (start < 0 || static_cast<std::uint64_t>(start) >= size || !buffer) return kPass;
  const std::size_t most =
      std::min({bytes, kMaxBytes, static_cast<std::size_t>(size) - static_cast<std::size_t>(start)});

  std::size_t done = 0;
  long error = 0;
  while (done < most && error == 0) {
    const ssize_t got = fill(from.fd, cached, buffer.get(), std::min(most - done, Buffer::kBytes),
                             static_cast<std::uint64_t>(start) + done);
    if (to_number && !*to_number) break;
    const long written = got > 0 ? write_to(to, buffer.get(), static_cast<std::size_t>(got), done) : got;
    if (written > 0) done += static_cast<std::size_t>(written);
    if (written < 0) error = written;
    if (written < got || got <= 0) break;
  }

  const auto moved = static_cast<off_t>(done);
  if (from.offset == nullptr && from_number) system_call(SYS_lseek, from.fd, moved, SEEK_CUR);
  if (from.offset != nullptr) *from.offset += moved;
  if (to.offset != nullptr) *to.offset += moved;
  return done > 0 ? moved : error;
}

bool is_plainly_written(int fd) {
  const long flags = system_call(SYS_fcntl, fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && (flags & (O_APPEND | O_PATH)) == 0;
}

bool is_same_file(const struct stat64& one, const struct stat64& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace

ssize_t send_file(int to, int from, off_t* offset, std::size_t bytes) {
  const CachedDescriptor cached = cached_descriptor(from);
  struct stat64 source {};
  struct stat64 target {};
  if (!cached || bytes == 0 || !is_plainly_written(to)) return kPass;
  if (system_call(SYS_fstat, from, &source) != 0 || system_call(SYS_fstat, to, &target) != 0) return kPass;
  if (is_same_file(source, target)) return kPass;
  return copy(cached, {from, offset}, {to, nullptr}, bytes);
}

// Only within one file system: across two the kernel says EXDEV, and the program reads instead. A file system that can
// do better than copy bytes is left to do so.
ssize_t copy_range(int from, off_t* from_offset, int to, off_t* to_offset, std::size_t bytes) {
  const CachedDescriptor cached = cached_descriptor(from);
  struct stat64 source {};
  struct stat64 target {};
  if (!cached || bytes == 0 || !is_plainly_written(to) || (to_offset != nullptr && *to_offset < 0)) return kPass;
  if (system_call(SYS_fstat, from, &source) != 0 || system_call(SYS_fstat, to, &target) != 0) return kPass;
  if (!S_ISREG(target.st_mode) || source.st_dev != target.st_dev || is_same_file(source, target)) return kPass;
  if (lies_where_copies_are_made(to)) return kPass;
  return copy(cached, {from, from_offset}, {to, to_offset}, bytes);
}

}  // namespace farside::cache_preload
