// Reads for which a device may write into the program's memory, in front of libc's.
//
// The kernel looks the pages up once, and the device writes to them later. A page that left in between would lose the
// bytes. So what goes to far memory is read into memory that stays, and copied. Writes are as always: a page that left
// has its bytes until the device has read them.
#include "direct_reads.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

#include <aio.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arena.h"
#include "cache_preload/far_reads.h"
#include "cache_preload/next.h"
#include "cache_preload/result.h"
#include "cache_preload/stream_operations.h"
#include "cache_preload/system_call.h"
#include "copied_reads.h"
#include "ranges.h"

// Functions that the compiler calls instead of read and pread when it knows how large the buffer is.
extern "C" {
ssize_t __read_chk(int fd, void* into, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void* into, size_t bytes, off_t offset, size_t room);
}

namespace {

namespace arena = farside::far_preload::arena;
using farside::cache_preload::as_libc_does;
using farside::cache_preload::Next;
using farside::cache_preload::system_call;
using farside::far_preload::is_copied;
using farside::far_preload::whole_pages;

constexpr std::uint64_t kMaxPieceBytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMaxReadBytes = 0x7ffff000;  // the kernel reads no more at once
constexpr off_t kAtPosition = -1;

constinit Next<decltype(read)> next_read("read");
constinit Next<decltype(pread)> next_pread("pread");
constinit Next<decltype(readv)> next_readv("readv");
constinit Next<decltype(preadv)> next_preadv("preadv");
constinit Next<decltype(preadv2)> next_preadv2("preadv2");
constinit Next<decltype(__read_chk)> next_read_chk("__read_chk");
constinit Next<decltype(__pread_chk)> next_pread_chk("__pread_chk");
constinit Next<decltype(aio_read)> next_aio_read("aio_read");
constinit Next<decltype(lio_listio)> next_lio_listio("lio_listio");

// A library that is being loaded may wait for a thread that reads for the first time.
[[gnu::constructor]] void find_all() {
  const auto find = [](auto&... each) { (each.find(), ...); };
  find(next_read, next_pread, next_readv, next_preadv, next_preadv2, next_read_chk, next_pread_chk, next_aio_read,
       next_lio_listio);
}

bool is_far(const void* into, std::size_t bytes) {
  return arena::touches(reinterpret_cast<std::uint64_t>(into), bytes);
}

bool is_far(const iovec* parts, int count) {
  return count > 0 && count <= IOV_MAX &&
         std::any_of(parts, parts + count, [](const iovec& part) { return is_far(part.iov_base, part.iov_len); });
}

/// The place in the program's buffers for the next bytes.
class Cursor {
 public:
  Cursor(const iovec* parts, int count) : next_(parts), end_(parts + count) {}

  void put(const std::byte* from, std::uint64_t bytes) {
    while (bytes != 0) {
      const std::uint64_t now = std::min<std::uint64_t>(bytes, next_->iov_len - used_);
      std::memcpy(static_cast<std::byte*>(next_->iov_base) + used_, from, now);
      from += now;
      bytes -= now;
      used_ += now;
      if (used_ == next_->iov_len && ++next_ != end_) used_ = 0;
    }
  }

 private:
  const iovec* next_;
  const iovec* end_;
  std::uint64_t used_ = 0;
};

// Memory that stays, for one read. libc's threads may end within one (pthread_cancel), without destructors.
class Room {
 public:
  explicit Room(std::uint64_t bytes)
      : bytes_(bytes), address_(system_call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0)) {}
  ~Room() { free(this); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  static void free(void* room) {
    const Room& self = *static_cast<Room*>(room);
    if (self.address_ > 0) system_call(SYS_munmap, self.address_, self.bytes_);
  }
  [[nodiscard]] long error() const { return std::min(address_, 0L); }
  [[nodiscard]] std::byte* base() const { return reinterpret_cast<std::byte*>(address_); }  // NOLINT

 private:
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  std::uint64_t bytes_;
  long address_;
};

using Read = long(Room& room, int fd, const iovec* parts, int count, off_t offset, int flags);

long read_by_system_call(Room& /*room*/, int fd, const iovec* parts, int count, off_t offset, int flags) {
  return system_call(SYS_preadv2, fd, parts, count, offset, 0, flags);
}

// As the functions of libc in whose place it is called: threads may be cancelled in it, and the cache serves it.
long read_by_next(Room& room, int fd, const iovec* parts, int count, off_t offset, int flags) {
  ssize_t result = 0;
  pthread_cleanup_push(Room::free, &room);
  result = next_preadv2(fd, parts, count, offset, flags);
  pthread_cleanup_pop(0);
  return result < 0 ? -errno : result;
}

// By the program's own division: a device may fill one part by one record.
long read_at_once(Read* read, int fd, const iovec* parts, int count, std::uint64_t wanted, off_t offset, int flags) {
  const std::uint64_t data_bytes = whole_pages(wanted);
  Room room(data_bytes + whole_pages(static_cast<std::uint64_t>(count) * sizeof(iovec)));
  if (room.error() != 0) return room.error();
  auto* const own_parts = reinterpret_cast<iovec*>(room.base() + data_bytes);
  std::uint64_t begin = 0;
  for (int i = 0; i < count; ++i) {
    own_parts[i] = {room.base() + begin, std::min<std::uint64_t>(parts[i].iov_len, wanted - begin)};
    begin += own_parts[i].iov_len;
  }
  const long result = read(room, fd, own_parts, count, offset, flags);
  if (result > 0) Cursor(parts, count).put(room.base(), static_cast<std::uint64_t>(result));
  return result;
}

long read_in_pieces(Read* read, int fd, const iovec* parts, int count, std::uint64_t wanted, off_t offset, int flags) {
  Room room(kMaxPieceBytes);
  if (room.error() != 0) return room.error();
  Cursor cursor(parts, count);
  std::uint64_t done = 0;
  long result = 0;
  while (done < wanted) {
    const iovec piece{room.base(), std::min(wanted - done, kMaxPieceBytes)};
    const off_t at = offset == kAtPosition ? kAtPosition : offset + static_cast<off_t>(done);
    result = read(room, fd, &piece, 1, at, flags);
    if (result <= 0) break;
    cursor.put(room.base(), static_cast<std::uint64_t>(result));
    done += static_cast<std::uint64_t>(result);
    if (static_cast<std::uint64_t>(result) < piece.iov_len) break;
  }
  return done != 0 ? static_cast<long>(done) : result;
}

// A file may be read from any offset. A device, or a stream, may have records, or no more to say.
bool is_divisible(int fd) {
  struct stat64 status {};
  return system_call(SYS_fstat, fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) &&
         system_call(SYS_lseek, fd, 0, SEEK_CUR) >= 0;
}

// As the kernel's: bytes, or -errno.
long read_by_way(Read* read, int fd, const iovec* parts, int count, off_t offset, int flags) {
  std::uint64_t wanted = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len > SSIZE_MAX - wanted) return -EINVAL;
    wanted += parts[i].iov_len;
  }
  wanted = std::min(wanted, kMaxReadBytes);
  const bool is_divided = wanted > kMaxPieceBytes && is_divisible(fd);
  return (is_divided ? read_in_pieces : read_at_once)(read, fd, parts, count, wanted, offset, flags);
}

ssize_t read_by_way(int fd, const iovec* parts, int count, off_t offset, int flags) {
  return as_libc_does(read_by_way(read_by_next, fd, parts, count, offset, flags));
}

ssize_t read_by_way(int fd, void* into, std::size_t bytes, off_t offset) {
  const iovec part{into, bytes};
  return read_by_way(fd, &part, 1, offset, 0);
}

// libc's own threads would read, past the hooks.
bool would_lose(const aiocb* request) {
  return request != nullptr && is_far(const_cast<void*>(request->aio_buf), request->aio_nbytes) &&
         !is_copied(request->aio_fildes);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// The read operation of libc's streams: fread, and all functions that are built on it. exec's library replaces it in
// turn.
ssize_t farside_far_stream_read(FILE* stream, void* into, ssize_t bytes) {
  const auto wanted = static_cast<std::size_t>(bytes);
  if (bytes > 0 && is_far(into, wanted) && !is_copied(stream->_fileno)) {
    return read_by_way(stream->_fileno, into, wanted, kAtPosition);
  }
  return farside::cache_preload::next_stream_read(stream, into, bytes);
}

// The cache's library calls it where its own read would be a system call.
ssize_t farside_far_read_at(int fd, void* into, std::size_t bytes, off_t offset) {
  if (offset < 0 || !is_far(into, bytes) || is_copied(fd)) return system_call(SYS_pread64, fd, into, bytes, offset);
  const iovec part{into, bytes};
  return read_by_way(read_by_system_call, fd, &part, 1, offset, 0);
}

ssize_t read(int fd, void* into, size_t bytes) {
  if (is_far(into, bytes) && !is_copied(fd)) return read_by_way(fd, into, bytes, kAtPosition);
  return next_read(fd, into, bytes);
}

ssize_t __read_chk(int fd, void* into, size_t bytes, size_t room) {
  if (bytes <= room && is_far(into, bytes) && !is_copied(fd)) return read_by_way(fd, into, bytes, kAtPosition);
  return next_read_chk(fd, into, bytes, room);
}

ssize_t pread(int fd, void* into, size_t bytes, off_t offset) {
  if (offset >= 0 && is_far(into, bytes) && !is_copied(fd)) return read_by_way(fd, into, bytes, offset);
  return next_pread(fd, into, bytes, offset);
}

ssize_t __pread_chk(int fd, void* into, size_t bytes, off_t offset, size_t room) {
  if (offset >= 0 && bytes <= room && is_far(into, bytes) && !is_copied(fd)) {
    return read_by_way(fd, into, bytes, offset);
  }
  return next_pread_chk(fd, into, bytes, offset, room);
}

ssize_t readv(int fd, const iovec* parts, int count) {
  if (is_far(parts, count) && !is_copied(fd)) return read_by_way(fd, parts, count, kAtPosition, 0);
  return next_readv(fd, parts, count);
}

ssize_t preadv(int fd, const iovec* parts, int count, off_t offset) {
  if (offset >= 0 && is_far(parts, count) && !is_copied(fd)) {
    return read_by_way(fd, parts, count, offset, 0);
  }
  return next_preadv(fd, parts, count, offset);
}

ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  if (offset >= kAtPosition && is_far(parts, count) && !is_copied(fd)) {
    return read_by_way(fd, parts, count, offset, flags);
  }
  return next_preadv2(fd, parts, count, offset, flags);
}

int aio_read(aiocb* request) noexcept {
  if (would_lose(request)) return static_cast<int>(as_libc_does(-EINVAL));
  return next_aio_read(request);
}

int lio_listio(int mode, aiocb* const requests[], int count, sigevent* event) noexcept {
  const bool loses = count > 0 && std::any_of(requests, requests + count, [](const aiocb* request) {
                       return request != nullptr && request->aio_lio_opcode == LIO_READ && would_lose(request);
                     });
  if (loses) return static_cast<int>(as_libc_does(-EINVAL));
  return next_lio_listio(mode, requests, count, event);
}

[[gnu::alias("pread")]] ssize_t pread64(int fd, void* into, size_t bytes, off_t offset);
[[gnu::alias("__pread_chk")]] ssize_t __pread64_chk(int fd, void* into, size_t bytes, off_t offset, size_t room);
[[gnu::alias("preadv")]] ssize_t preadv64(int fd, const iovec* parts, int count, off_t offset);
[[gnu::alias("preadv2")]] ssize_t preadv64v2(int fd, const iovec* parts, int count, off_t offset, int flags);
[[gnu::alias("aio_read")]] int aio_read64(aiocb64* request) noexcept;
[[gnu::alias("lio_listio")]] int lio_listio64(int mode, aiocb64* const requests[], int count, sigevent* event) noexcept;

}  // extern "C"
#pragma GCC visibility pop

bool farside::far_preload::take_over_streams() {
  return cache_preload::replace_stream_operation(cache_preload::next_stream_read.find(), farside_far_stream_read);
}
