// The function of libc that maps files: it is the kernel's business, and counted. Stands alone, as the other hooks do.
#include <sys/mman.h>

#include "classify.h"
#include "next.h"

namespace {

constinit farside::cache_preload::Next<decltype(mmap)> next_mmap("mmap");

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  void* const place = next_mmap(at, bytes, protection, flags, fd, offset);
  if (fd >= 0 && (flags & MAP_ANONYMOUS) == 0 && place != MAP_FAILED) farside::cache_preload::note_mapping(fd, bytes);
  return place;
}

// off_t has 64 bits here.
[[gnu::alias("mmap")]] void* mmap64(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept;

}  // extern "C"
#pragma GCC visibility pop
