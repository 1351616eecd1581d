// The functions of libc that map memory.
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/uio.h>

#include "arena.h"
#include "cache_preload/system_call.h"
#include "ranges.h"

namespace {

namespace arena = farside::far_preload::arena;
using farside::cache_preload::system_call;
using farside::far_preload::kPageBytes;
using farside::far_preload::whole_pages;

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

// Memory that starts as zeros, is private, and may lie anywhere. What the kernel is to lock at once is its own.
bool is_plain(int flags) {
  constexpr int kType = MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS;
  constexpr int kElsewhere = MAP_STACK | MAP_GROWSDOWN | MAP_LOCKED | MAP_HUGETLB | MAP_32BIT | MAP_FIXED_NOREPLACE;
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

long move(long mapping, std::size_t bytes, long to) {
  return system_call(SYS_mremap, mapping, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

// Moves a mapping to an address that is no huge page's. The kernel refuses to move one of huge pages there, as to most
// places in the arena; any other can be moved on from there.
long move_to_small_page(long mapping, std::size_t bytes) {
  constexpr long kHugePageBytes = 2L << 20U;
  const auto page = static_cast<long>(kPageBytes);
  const long spare =
      system_call(SYS_mmap, 0, bytes + kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (spare < 0) return spare;
  const bool is_huge = spare % kHugePageBytes == 0;
  const long moved = move(mapping, bytes, is_huge ? spare + page : spare);
  if (moved < 0) system_call(SYS_munmap, spare, bytes + kPageBytes);
  if (moved >= 0) system_call(SYS_munmap, is_huge ? spare : spare + static_cast<long>(bytes), page);
  return moved;
}

// Puts what `make` makes elsewhere over a part of the arena. If it fails, the bytes are still there, and `undo` is
// called with what was made.
template <class Make, class Undo>
long put_over(std::uint64_t address, std::size_t bytes, Make make, Undo undo) {
  if (address % kPageBytes != 0) return -EINVAL;
  if (!are_mappings_left()) return -ENOMEM;
  const long made = make();
  if (made < 0) return made;
  const long moved = move_to_small_page(made, whole_pages(bytes));
  long result = moved < 0 ? moved : arena::give_away(address, bytes);
  if (result == 0) result = move(moved, whole_pages(bytes), static_cast<long>(address));
  if (result < 0) undo(moved < 0 ? made : moved);
  return result;
}

// The same for a new mapping.
template <class Make>
long map_over(std::uint64_t address, std::size_t bytes, Make make) {
  return put_over(address, bytes, make, [bytes](long made) { system_call(SYS_munmap, made, bytes); });
}

long map_memory(std::uint64_t address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  const bool is_fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) == MAP_FIXED;
  if (is_fixed && is_plain(flags) && arena::is_within(address, bytes))
    return arena::map_over(address, bytes, protection);
  if (is_fixed && arena::touches(address, bytes)) {
    return map_over(address, bytes,
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

long attach(int segment, std::uint64_t address, int flags) {
  const bool replaces = (flags & SHM_REMAP) != 0 && address != 0;
  struct shmid_ds about {};
  if (replaces) {
    const long error = system_call(SYS_shmctl, segment, IPC_STAT, reinterpret_cast<std::uint64_t>(&about));
    if (error != 0) return error;
  }
  const std::size_t bytes = whole_pages(about.shm_segsz);
  const std::uint64_t place = (flags & SHM_RND) != 0 ? address - address % kPageBytes : address;
  if (!replaces || !arena::touches(place, bytes)) return system_call(SYS_shmat, segment, address, flags);
  return map_over(place, bytes, [&] { return system_call(SYS_shmat, segment, 0, flags & ~SHM_REMAP); });
}

// Moves a mapping over a part of the arena.
long move_over(std::uint64_t place, std::uint64_t at, std::size_t bytes, std::size_t new_bytes, int flags) {
  const std::size_t kept = std::min(bytes, new_bytes);
  const auto make = [&] { return system_call(SYS_mremap, at, kept, new_bytes, flags & ~MREMAP_FIXED); };
  const auto undo = [&](long made) {
    if (kept == 0) system_call(SYS_munmap, made, new_bytes);  // it is a second mapping of shared memory
    if (kept != 0) system_call(SYS_mremap, made, new_bytes, kept, MREMAP_MAYMOVE | MREMAP_FIXED, at);
  };
  const long result = put_over(place, new_bytes, make, undo);
  if (result >= 0 && bytes > kept) system_call(SYS_munmap, at + kept, bytes - kept);
  return result;
}

// Advice that a process may give to others as well discards nothing.
bool keeps_bytes(int advice) {
  return advice == MADV_COLD || advice == MADV_PAGEOUT || advice == MADV_WILLNEED || advice == arena::kCollapse;
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
    return as_address(move_over(place, at, whole_pages(bytes), whole_pages(new_bytes), flags));
  }
  return as_address(system_call(SYS_mremap, at, bytes, new_bytes, flags, place));
}

void* shmat(int segment, const void* address, int flags) noexcept {
  return as_address(attach(segment, number(address), flags));
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

// Kernels from 6.13 on take any advice for the calling process's own memory, earlier ones only what keeps the bytes.
ssize_t process_madvise(int process, const iovec* parts, size_t count, int advice, unsigned flags) noexcept {
  const auto is_far = [](const iovec& part) { return arena::touches(number(part.iov_base), part.iov_len); };
  if (!keeps_bytes(advice) && std::any_of(parts, parts + count, is_far)) {
    errno = EINVAL;
    return -1;
  }
  const long done =
      system_call(SYS_process_madvise, process, reinterpret_cast<std::uint64_t>(parts), count, advice, flags);
  return done >= 0 ? done : as_libc_does(done);
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
