// arena.h — the addresses at which far memory lies in this process: what mmap, munmap, mremap, madvise and mlock mean
// there. They are the arena, from which allocations are given, and the program's static arrays, which are its from the
// beginning. What it gives back of those is given to allocations, too.
//
// Every call, from any thread and any signal handler, but for `open`. Results are as the kernel's: an address or 0, or
// -errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "connection.h"

namespace farside::far_preload::arena {

inline constexpr int kCollapse = 25;  ///< MADV_COLLAPSE, which Debian 12's libc does not name

/// Reserves `bytes` of addresses; called once, before everything else, with less than DaemonPacket::kRanges static
/// arrays of whole pages. 0, or -errno.
[[nodiscard]] long open(std::uint64_t bytes, std::uint64_t threshold_bytes,
                        std::span<const AddressRange> static_arrays);

/// Its zones: the arena, and then static arrays. None before `open`.
[[nodiscard]] std::span<const AddressRange> zones();
/// Whether anything of the range is in them.
[[nodiscard]] bool touches(std::uint64_t address, std::uint64_t bytes);
/// Whether all of it is in one of them.
[[nodiscard]] bool is_within(std::uint64_t address, std::uint64_t bytes);

/// Whether an allocation of so much belongs here.
[[nodiscard]] bool wants(std::uint64_t bytes);

/// Zeros. -ENOMEM when there is no room for it.
[[nodiscard]] long map(std::uint64_t bytes, int protection);
/// Zeros in the place of what was there; all of it is within one zone. When it fails, every byte is as it was.
[[nodiscard]] long map_over(std::uint64_t address, std::uint64_t bytes, int protection);
/// Before something else comes over a range: takes out what of it is here. The bytes are gone.
[[nodiscard]] long give_away(std::uint64_t address, std::uint64_t bytes);

// For ranges that may begin or end outside: there the kernel does it.

[[nodiscard]] long unmap(std::uint64_t address, std::uint64_t bytes);
[[nodiscard]] long advise(std::uint64_t address, std::uint64_t bytes, int advice);
[[nodiscard]] long lock(std::uint64_t address, std::uint64_t bytes);
[[nodiscard]] long unlock(std::uint64_t address, std::uint64_t bytes);

/// A range to another length, or place; MREMAP_FIXED: to `place`, here or not.
[[nodiscard]] long remap(std::uint64_t address, std::uint64_t bytes, std::uint64_t new_bytes, int flags,
                         std::uint64_t place);

/// Tells farside far that `caller` got this part of it. Whatever the answer is, the program has its memory.
void allocated(const AddressRange& range, std::uint64_t caller);

/// No thread changes it from here to `release`: around a fork. Signals wait in that time.
void hold();
void release();

/// In a copy of this process that has no far memory: from here on there is none, and what the copy does is no request.
void leave();

}  // namespace farside::far_preload::arena
