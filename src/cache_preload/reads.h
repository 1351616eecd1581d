// reads.h — reads of the program's descriptors, out of the pool.
//
// Each returns what the system call would, an error as -errno, or kPass: the caller asks libc then. The descriptor
// stays the kernel's, and so does its offset, which other processes may share.
#pragma once

#include <climits>
#include <cstddef>

#include <sys/types.h>
#include <sys/uio.h>

#include "classify.h"

namespace farside::cache_preload {

inline constexpr ssize_t kPass = LONG_MIN;

/// No system call moves more.
inline constexpr std::size_t kMaxBytes = 0x7ffff000;

/// At the descriptor's offset, and moves it.
ssize_t read_on(int fd, const iovec* parts, int count);

/// At `offset`.
ssize_t read_at(int fd, const iovec* parts, int count, off_t offset);

inline ssize_t read_on(int fd, void* into, std::size_t bytes) {
  const iovec part{into, bytes};
  return read_on(fd, &part, 1);
}

inline ssize_t read_at(int fd, void* into, std::size_t bytes, off_t offset) {
  const iovec part{into, bytes};
  return read_at(fd, &part, 1, offset);
}

/// Fills `into` with bytes that lie within the file: from the pool, and what is not to be had there from the kernel.
/// kPass when the descriptor's number means another file before the first byte.
ssize_t fill(int fd, const CachedDescriptor& cached, std::byte* into, std::size_t bytes, std::uint64_t offset);

}  // namespace farside::cache_preload
