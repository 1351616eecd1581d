// The functions of libc that map memory.
#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include <sys/mman.h>

#include "arena.h"
#include "preload/system_call.h"

namespace {

namespace arena = farside::far_preload::arena;
using farside::preload::system_call;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

int as_libc_does(long result) {
  if (result >= 0) return 0;
  errno = static_cast<int>(-result);
  return -1;
}

void* as_address(long result) {
  if (result >= 0 || result < -4095) return reinterpret_cast<void*>(result);  // NOLINT(performance-no-int-to-ptr)
  errno = static_cast<int>(-result);
  return MAP_FAILED;
}

// Memory that starts as zeros, is nobody else's, and may lie anywhere.
bool is_plain(int flags) {
  constexpr int kType = MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS;
  constexpr int kElsewhere = MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB | MAP_32BIT | MAP_FIXED_NOREPLACE;
  return (flags & kType) == (MAP_PRIVATE | MAP_ANONYMOUS) && (flags & kElsewhere) == 0;
}

bool lies_within(std::uint64_t address, std::size_t bytes) {
  return arena::contains(address) && bytes > 0 && arena::contains(address + bytes - 1);
}

long map_memory(std::uint64_t address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  const bool is_fixed = (flags & MAP_FIXED) != 0;
  if (is_fixed && is_plain(flags) && lies_within(address, bytes)) return arena::map_over(address, bytes, protection);
  if (is_fixed && arena::touches(address, bytes)) {
    if (const long error = arena::give_away(address, bytes); error != 0) return error;
  }
  if (!is_fixed && is_plain(flags) && arena::wants(bytes)) {
    const long result = arena::map(bytes, protection);
    // Addresses alone, as some programs reserve them by the terabyte, are nothing that must be far.
    if (result != -ENOMEM || protection != PROT_NONE) return result;
  }
  return system_call(SYS_mmap, address, bytes, protection, flags, file, offset);
}

int advise(void* address, std::size_t bytes, int advice) {
  const std::uint64_t at = number(address);
  return as_libc_does(arena::touches(at, bytes) ? arena::advise(at, bytes, advice)
                                                : system_call(SYS_madvise, at, bytes, advice));
}

int lock(const void* address, std::size_t bytes, unsigned flags) {
  const std::uint64_t at = number(address);
  return as_libc_does(arena::touches(at, bytes) ? arena::lock(at, bytes) : system_call(SYS_mlock2, at, bytes, flags));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return as_address(map_memory(number(address), bytes, protection, flags, file, offset));
}

[[gnu::alias("mmap")]] void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                                    off_t offset) noexcept;

int munmap(void* address, size_t bytes) noexcept {
  const std::uint64_t at = number(address);
  return as_libc_does(arena::touches(at, bytes) ? arena::unmap(at, bytes) : system_call(SYS_munmap, at, bytes));
}

void* mremap(void* address, size_t bytes, size_t new_bytes, int flags, ...) noexcept {
  std::uint64_t place = 0;
  if ((flags & MREMAP_FIXED) != 0) {
    va_list list;
    va_start(list, flags);
    place = number(va_arg(list, void*));
    va_end(list);
  }
  const std::uint64_t at = number(address);
  if (arena::touches(at, bytes)) return as_address(arena::remap(at, bytes, new_bytes, flags, place));
  if ((flags & MREMAP_FIXED) != 0 && arena::touches(place, new_bytes)) {
    if (const long error = arena::give_away(place, new_bytes); error != 0) return as_address(error);
  }
  return as_address(system_call(SYS_mremap, at, bytes, new_bytes, flags, place));
}

int madvise(void* address, size_t bytes, int advice) noexcept { return advise(address, bytes, advice); }

// Returns what madvise would leave in errno. POSIX's "do not need" keeps the bytes; libc does nothing then.
int posix_madvise(void* address, size_t bytes, int advice) noexcept {
  if (advice == POSIX_MADV_DONTNEED) return 0;
  const int before = errno;
  const int error = advise(address, bytes, advice) == 0 ? 0 : errno;
  errno = before;
  return error;
}

int mlock(const void* address, size_t bytes) noexcept { return lock(address, bytes, 0); }
int mlock2(const void* address, size_t bytes, unsigned flags) noexcept { return lock(address, bytes, flags); }

int munlock(const void* address, size_t bytes) noexcept {
  const std::uint64_t at = number(address);
  return as_libc_does(arena::touches(at, bytes) ? arena::unlock(at, bytes) : system_call(SYS_munlock, at, bytes));
}

// All of the arena would have to be here.
int mlockall(int flags) noexcept {
  return as_libc_does(arena::wants(UINT64_MAX) ? -ENOMEM : system_call(SYS_mlockall, flags));
}

}  // extern "C"
#pragma GCC visibility pop
