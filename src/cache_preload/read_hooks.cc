// The functions of libc that read.
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "next.h"
#include "reads.h"
#include "result.h"
#include "transfers.h"

using farside::cache_preload::as_libc_does;
using farside::cache_preload::copy_range;
using farside::cache_preload::kPass;
using farside::cache_preload::Next;
using farside::cache_preload::read_at;
using farside::cache_preload::read_on;
using farside::cache_preload::send_file;

// Functions that the compiler calls instead of read and pread when it knows how large the buffer is.
extern "C" {
ssize_t __read_chk(int fd, void* into, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void* into, size_t bytes, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void* into, size_t bytes, off_t offset, size_t room);
}

namespace {

constinit Next<decltype(read)> next_read("read");
constinit Next<decltype(pread)> next_pread("pread");
constinit Next<decltype(readv)> next_readv("readv");
constinit Next<decltype(preadv)> next_preadv("preadv");
constinit Next<decltype(preadv2)> next_preadv2("preadv2");
constinit Next<decltype(__read_chk)> next_read_chk("__read_chk");
constinit Next<decltype(__pread_chk)> next_pread_chk("__pread_chk");
constinit Next<decltype(sendfile)> next_sendfile("sendfile");
constinit Next<decltype(copy_file_range)> next_copy_file_range("copy_file_range");

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t read(int fd, void* into, size_t bytes) {
  const ssize_t got = read_on(fd, into, bytes);
  return got != kPass ? as_libc_does(got) : next_read(fd, into, bytes);
}

ssize_t __read_chk(int fd, void* into, size_t bytes, size_t room) {
  const ssize_t got = bytes <= room ? read_on(fd, into, bytes) : kPass;
  return got != kPass ? as_libc_does(got) : next_read_chk(fd, into, bytes, room);
}

ssize_t readv(int fd, const iovec* parts, int count) {
  const ssize_t got = read_on(fd, parts, count);
  return got != kPass ? as_libc_does(got) : next_readv(fd, parts, count);
}

ssize_t pread(int fd, void* into, size_t bytes, off_t offset) {
  const ssize_t got = read_at(fd, into, bytes, offset);
  return got != kPass ? as_libc_does(got) : next_pread(fd, into, bytes, offset);
}

ssize_t __pread_chk(int fd, void* into, size_t bytes, off_t offset, size_t room) {
  const ssize_t got = bytes <= room ? read_at(fd, into, bytes, offset) : kPass;
  return got != kPass ? as_libc_does(got) : next_pread_chk(fd, into, bytes, offset, room);
}

ssize_t preadv(int fd, const iovec* parts, int count, off_t offset) {
  const ssize_t got = read_at(fd, parts, count, offset);
  return got != kPass ? as_libc_does(got) : next_preadv(fd, parts, count, offset);
}

ssize_t preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  ssize_t got = kPass;
  if (flags == 0) got = offset == -1 ? read_on(fd, parts, count) : read_at(fd, parts, count, offset);
  return got != kPass ? as_libc_does(got) : next_preadv2(fd, parts, count, offset, flags);
}

ssize_t sendfile(int to, int from, off_t* offset, size_t bytes) noexcept {
  const ssize_t sent = send_file(to, from, offset, bytes);
  return sent != kPass ? as_libc_does(sent) : next_sendfile(to, from, offset, bytes);
}

ssize_t copy_file_range(int from, off_t* from_offset, int to, off_t* to_offset, size_t bytes, unsigned flags) {
  const ssize_t copied = flags == 0 ? copy_range(from, from_offset, to, to_offset, bytes) : kPass;
  return copied != kPass ? as_libc_does(copied) : next_copy_file_range(from, from_offset, to, to_offset, bytes, flags);
}

// off_t has 64 bits here.
[[gnu::alias("pread")]] ssize_t pread64(int fd, void* into, size_t bytes, off_t offset);
[[gnu::alias("preadv")]] ssize_t preadv64(int fd, const iovec* parts, int count, off_t offset);
[[gnu::alias("preadv2")]] ssize_t preadv64v2(int fd, const iovec* parts, int count, off_t offset, int flags);
[[gnu::alias("sendfile")]] ssize_t sendfile64(int to, int from, off_t* offset, size_t bytes) noexcept;
[[gnu::alias("__pread_chk")]] ssize_t __pread64_chk(int fd, void* into, size_t bytes, off_t offset, size_t room);

}  // extern "C"
#pragma GCC visibility pop
