// The functions of libc that map memory.
#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include <sys/mman.h>

#include "arena.h"
#include "preload/system_call.h"
#include "ranges.h"

namespace {

namespace arena = farside::far_preload::arena;
using farside::far_preload::kPageBytes;
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

// Memory that starts as zeros, is private, and may lie anywhere.
bool is_plain(int flags) {
  constexpr int kType = MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS;
  constexpr int kElsewhere = MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB | MAP_32BIT | MAP_FIXED_NOREPLACE;
  return (flags & kType) == (MAP_PRIVATE | MAP_ANONYMOUS) && (flags & kElsewhere) == 0;
}

// Enough for what the kernel asks for when it moves a mapping (mremap): it refuses a little before there are too many.
bool are_mappings_left() {
  constexpr std::uint64_t kMappings = 12;
  const long spare = system_call(SYS_mmap, 0, kMappings * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (spare < 0) return false;
  bool are_left = true;
  for (std::uint64_t page = 0; are_left && page < kMappings; page += 2) {  // each of them another mapping
    are_left =
        system_call(SYS_madvise, static_cast<std::uint64_t>(spare) + page * kPageBytes, kPageBytes, MADV_RANDOM) == 0;
  }
  system_call(SYS_munmap, spare, kMappings * kPageBytes);
  return are_left;
}

// Puts what `make` makes elsewhere over a part of the arena. If the kernel refuses, the bytes are still there.
template <class Make>
long put_over(std::uint64_t address, std::size_t bytes, Make make) {
  if (address % kPageBytes != 0) return -EINVAL;
  if (!are_mappings_left()) return -ENOMEM;
  const long made = make();
  if (made < 0) return made;
  if (const long error = arena::give_away(address, bytes); error != 0) return error;
  return system_call(SYS_mremap, made, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, address);
}

long map_memory(std::uint64_t address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  const bool is_fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED;
  if (is_fixed && is_plain(flags) && arena::is_within(address, bytes))
    return arena::map_over(address, bytes, protection);
  if (is_fixed && arena::touches(address, bytes)) {
    return put_over(address, bytes,
                    [&] { return system_call(SYS_mmap, 0, bytes, protection, flags & ~MAP_FIXED, file, offset); });
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
  constexpr int kToPlace = MREMAP_MAYMOVE | MREMAP_FIXED;
  if ((flags & kToPlace) == kToPlace && arena::touches(place, new_bytes)) {
    return as_address(put_over(place, new_bytes,
                               [&] { return system_call(SYS_mremap, at, bytes, new_bytes, flags & ~MREMAP_FIXED); }));
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
