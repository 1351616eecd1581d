#include "arena.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include <sys/mman.h>

#include "farside/base/rounding.h"
#include "farside/far/hint.h"

#include "cache_preload/system_call.h"
#include "held.h"
#include "ranges.h"

namespace farside::far_preload::arena {

namespace {

using cache_preload::system_call;
using far::Hint;
using Part = Ranges::Part;

constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
constexpr std::uint64_t kLargeBytes = std::uint64_t{2}
                                      << 20U;            // allocators want ranges of this size on a multiple of it
constexpr std::size_t kBorders = std::size_t{1} << 20U;  // of the table

// A freed range keeps its bytes, and its share of the budget, until it is worth a request.
constexpr std::uint64_t kFreedBytes = std::uint64_t{8} << 20U;
constexpr std::size_t kFreedParts = DaemonPacket::kRanges;

struct State {
  AddressRange zones[DaemonPacket::kRanges];  // the arena, and then static arrays
  std::size_t zone_count;
  std::uint64_t threshold_bytes;
  Lock lock;      // for the rest
  Ranges ranges;  // from the first to the last; what lies between them is foreign
  std::uint64_t freed_bytes;
  std::size_t freed_parts;
  SignalsHeld::Mask mask_before_fork;
};
constinit State state{};

class Held {
  const SignalsHeld signals_;
  const std::lock_guard<Lock> guard_{state.lock};
};

std::uint64_t end_of(const AddressRange& range) { return range.address + range.bytes; }

// Bytes in whole pages; 0 when the kernel would refuse the range.
std::uint64_t checked_bytes(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t rounded = whole_pages(bytes);
  return address % kPageBytes == 0 && rounded >= bytes && address + rounded > address ? rounded : 0;
}

long ask_about(DaemonPacketKind kind, Hint hint, const Part& part) {
  const AddressRange range{part.begin, part.end - part.begin};
  switch (ask(kind, static_cast<std::uint64_t>(hint), {&range, 1})) {
    case Answer::done: return 0;
    case Answer::refused: return -ENOMEM;
    case Answer::gone: break;
  }
  return -EAGAIN;
}

long discard(const Part& part) {
  return part.use == Use::free ? 0 : ask_about(DaemonPacketKind::discard, Hint::none, part);
}

// As the kernel, it leaves memory that is locked as it is.
long clear(const Part& part) {
  const long error = part.use == Use::free ? 0 : ask_about(DaemonPacketKind::clear, Hint::none, part);
  return error == -ENOMEM ? -EINVAL : error;
}

// Freed ranges become free, many ranges in a request. False when the daemon does not answer.
bool recycle() {
  for (;;) {
    AddressRange freed[DaemonPacket::kRanges];
    std::size_t count = 0;
    const auto collect = [&](const Part& part) {
      if (part.use == Use::freed && count < std::size(freed)) freed[count++] = {part.begin, part.end - part.begin};
    };
    state.ranges.for_each(state.ranges.begin(), state.ranges.end(), collect);
    if (count == 0) break;
    if (ask(DaemonPacketKind::discard, 0, {freed, count}) != Answer::done) return false;
    for (std::size_t i = 0; i < count; ++i) {
      // A whole part: the table gets no longer by that.
      static_cast<void>(state.ranges.set(freed[i].address, end_of(freed[i]), Use::free));
    }
  }
  state.freed_bytes = 0;
  state.freed_parts = 0;
  return true;
}

// Whatever the program did to its protection: as it was in the beginning. It fails where that takes a mapping more than
// the kernel allows, as it would to unmap a part of one.
long unprotect(const Part& part) { return system_call(SYS_mprotect, part.begin, part.end - part.begin, kReadWrite); }

long free_part(const Part& part) {
  if (part.use != Use::used) return 0;
  if (const long error = unprotect(part); error != 0) return error;
  if (!state.ranges.set(part.begin, part.end, Use::freed)) return -ENOMEM;
  state.freed_bytes += part.end - part.begin;
  ++state.freed_parts;
  return 0;
}

// Parts of ours are `mine`'s; what lies outside, or is foreign, is the kernel's. The first error.
template <class Mine>
long divide(std::uint64_t address, std::uint64_t bytes, long number, int advice, Mine mine) {
  const std::uint64_t rounded = checked_bytes(address, bytes);
  if (rounded == 0) return -EINVAL;
  const std::uint64_t end = address + rounded;
  long first_error = 0;
  const auto note = [&first_error](long error) {
    if (first_error == 0) first_error = error;
  };
  const auto kernels = [&](std::uint64_t from, std::uint64_t to) {
    if (from < to) note(system_call(number, from, to - from, advice));
  };
  const Held held;
  const std::uint64_t from = std::clamp(address, state.ranges.begin(), state.ranges.end());
  const std::uint64_t to = std::clamp(end, state.ranges.begin(), state.ranges.end());
  kernels(address, std::min(end, state.ranges.begin()));
  kernels(std::max(address, state.ranges.end()), end);
  state.ranges.for_each(from, to, [&](const Part& part) {
    if (part.use == Use::foreign) {
      kernels(part.begin, part.end);
    } else {
      note(mine(part));
    }
  });
  return first_error;
}

long ask_about_used(DaemonPacketKind kind, Hint hint, const Part& part) {
  return part.use == Use::used ? ask_about(kind, hint, part) : -ENOMEM;
}

long hint_used(Hint hint, const Part& part) { return ask_about_used(DaemonPacketKind::advise, hint, part); }

// Copies only pages that are not zero: zeros need no memory in the new place.
void copy_pages(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  constexpr std::byte kZeros[kPageBytes] = {};
  const auto* source = reinterpret_cast<const std::byte*>(from);  // NOLINT(performance-no-int-to-ptr)
  auto* target = reinterpret_cast<std::byte*>(to);                // NOLINT(performance-no-int-to-ptr)
  for (const auto* const end = source + bytes; source != end; source += kPageBytes, target += kPageBytes) {
    if (std::memcmp(source, kZeros, kPageBytes) != 0) std::memcpy(target, source, kPageBytes);
  }
}

bool is_used(std::uint64_t address, std::uint64_t bytes) {
  if (!is_within(address, bytes)) return false;
  const Part part = state.ranges.part_at(address);
  return part.use == Use::used && bytes <= part.end - address;
}

// Takes the pages behind a range, if they are free.
bool extend(std::uint64_t from, std::uint64_t to) {
  if (!is_within(from, to - from)) return false;
  const auto free_behind = [&] {
    const Part next = state.ranges.part_at(from);
    return next.use == Use::free && to <= next.end;
  };
  if (!free_behind() && (state.ranges.part_at(from).use != Use::freed || !recycle() || !free_behind())) return false;
  return state.ranges.set(from, to, Use::used);
}

// The place that mremap was told; zeros.
long place_at(std::uint64_t address, std::uint64_t bytes) {
  if (is_within(address, bytes)) return map_over(address, bytes, kReadWrite);
  if (touches(address, bytes)) return -EINVAL;
  return system_call(SYS_mmap, address, bytes, kReadWrite, kAnonymous | MAP_FIXED, -1, 0);
}

}  // namespace

long open(std::uint64_t bytes, std::uint64_t threshold_bytes, std::span<const AddressRange> static_arrays) {
  const long table = system_call(SYS_mmap, 0, kBorders * sizeof(std::uint64_t), kReadWrite, kAnonymous, -1, 0);
  if (table < 0) return table;
  bytes = whole_pages(bytes) / kLargeBytes * kLargeBytes;
  if (bytes == 0) return -EPROTO;
  const long reserved = system_call(SYS_mmap, 0, bytes + kLargeBytes, kReadWrite, kAnonymous, -1, 0);
  if (reserved < 0) return reserved;
  const auto base = round_up(static_cast<std::uint64_t>(reserved), kLargeBytes);
  system_call(SYS_munmap, reserved, base - static_cast<std::uint64_t>(reserved));
  system_call(SYS_munmap, base + bytes, static_cast<std::uint64_t>(reserved) + kLargeBytes - base);
  system_call(SYS_madvise, base, bytes, MADV_NOHUGEPAGE);
  auto* const borders = reinterpret_cast<std::uint64_t*>(table);  // NOLINT(performance-no-int-to-ptr)
  state.zones[0] = {base, bytes};
  std::ranges::copy(static_arrays, state.zones + 1);
  state.zone_count = 1 + static_arrays.size();
  const auto first = std::ranges::min(zones(), {}, &AddressRange::address);
  const auto last = std::ranges::max(zones(), {}, &AddressRange::address);
  state.ranges = Ranges({borders, kBorders}, first.address, end_of(last));
  bool is_set =
      state.ranges.set(first.address, end_of(last), Use::foreign) && state.ranges.set(base, base + bytes, Use::free);
  for (const AddressRange& range : static_arrays) {
    is_set = is_set && state.ranges.set(range.address, end_of(range), Use::used);
  }
  state.threshold_bytes = threshold_bytes;
  return is_set ? 0 : -ENOMEM;
}

std::span<const AddressRange> zones() { return {state.zones, state.zone_count}; }

bool touches(std::uint64_t address, std::uint64_t bytes) {
  return bytes > 0 && std::ranges::any_of(zones(), [=](const AddressRange& zone) {
           return address < end_of(zone) && (address >= zone.address || bytes > zone.address - address);
         });
}

bool is_within(std::uint64_t address, std::uint64_t bytes) {
  return bytes > 0 && std::ranges::any_of(zones(), [=](const AddressRange& zone) {
           return address - zone.address < zone.bytes && bytes <= end_of(zone) - address;
         });
}

bool wants(std::uint64_t bytes) { return state.zone_count != 0 && bytes >= state.threshold_bytes; }

long map(std::uint64_t bytes, int protection) {
  if (bytes > state.zones[0].bytes) return -ENOMEM;
  bytes = whole_pages(bytes);
  const Held held;
  const auto find = [bytes] {
    const auto aligned = bytes >= kLargeBytes ? state.ranges.find_free(bytes, kLargeBytes) : std::nullopt;
    return aligned ? aligned : state.ranges.find_free(bytes, kPageBytes);
  };
  auto place = find();
  if (!place && state.freed_bytes != 0 && recycle()) place = find();
  if (!place || !state.ranges.set(*place, *place + bytes, Use::used)) return -ENOMEM;
  const long error = protection == kReadWrite ? 0 : system_call(SYS_mprotect, *place, bytes, protection);
  if (error == 0) return static_cast<long>(*place);
  static_cast<void>(state.ranges.set(*place, *place + bytes, Use::free));
  return error;
}

long map_over(std::uint64_t address, std::uint64_t bytes, int protection) {
  const std::uint64_t rounded = checked_bytes(address, bytes);
  if (rounded == 0) return -EINVAL;
  long error = 0;
  const Held held;
  const auto for_each = [&](bool foreign, auto then) {
    state.ranges.for_each(address, address + rounded, [&](const Part& part) {
      if (error == 0 && (part.use == Use::foreign) == foreign) error = then(part);
    });
  };
  const auto protect = [](const Part& part, int wanted) {
    return system_call(SYS_mprotect, part.begin, part.end - part.begin, wanted);
  };
  // Calls that the kernel may refuse come first: bytes go when nothing can fail any more.
  for_each(false, [&](const Part& part) { return protect(part, protection); });
  for_each(true, [&](const Part& part) {
    const long mapped =
        system_call(SYS_mmap, part.begin, part.end - part.begin, protection, kAnonymous | MAP_FIXED, -1, 0);
    return std::min(mapped, 0L);
  });
  for_each(false, [](const Part& part) {
    return state.ranges.set(part.begin, part.end, Use::used) ? discard(part) : -ENOMEM;
  });
  if (error == 0) return static_cast<long>(address);
  // Pages that are not in use are as they were in the beginning.
  state.ranges.for_each(address, address + rounded, [&](const Part& part) {
    if (part.use == Use::free || part.use == Use::freed) static_cast<void>(protect(part, kReadWrite));
  });
  return error;
}

long give_away(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t rounded = checked_bytes(address, bytes);
  if (rounded == 0) return -EINVAL;
  long error = 0;
  const Held held;
  const std::uint64_t from = std::max(address, state.ranges.begin());
  const std::uint64_t to = std::min(address + rounded, state.ranges.end());
  state.ranges.for_each(from, to, [&](const Part& part) {
    if (error != 0 || part.use == Use::foreign) return;
    error = state.ranges.set(part.begin, part.end, Use::foreign)
                ? ask_about(DaemonPacketKind::give_away, Hint::none, part)
                : -ENOMEM;
  });
  return error;
}

long unmap(std::uint64_t address, std::uint64_t bytes) {
  return divide(address, bytes, SYS_munmap, 0, [](const Part& part) {
    const long error = free_part(part);
    if (state.freed_bytes >= kFreedBytes || state.freed_parts >= kFreedParts) recycle();
    return error;
  });
}

long advise(std::uint64_t address, std::uint64_t bytes, int advice) {
  const auto by = [=](auto mine) { return divide(address, bytes, SYS_madvise, advice, mine); };
  const auto hint = [&](Hint wanted) { return by([wanted](const Part& part) { return hint_used(wanted, part); }); };
  switch (advice) {
    case MADV_DONTNEED:
    case MADV_DONTNEED_LOCKED:
    case MADV_FREE: return by(clear);
    case MADV_NORMAL:
    case MADV_RANDOM: return hint(Hint::none);
    case MADV_SEQUENTIAL: return hint(Hint::sequential);
    case MADV_COLD:
    case MADV_PAGEOUT: return hint(Hint::done);
    // Pages come when they are touched, are small here, and are a child's as well: there is nothing to do.
    case MADV_WILLNEED:
    case MADV_HUGEPAGE:
    case kCollapse:
    case MADV_MERGEABLE:
    case MADV_DOFORK:
    case MADV_KEEPONFORK: return by([](const Part& /*part*/) { return 0L; });
    case MADV_DONTFORK:
    case MADV_WIPEONFORK: return by([](const Part& /*part*/) { return -EINVAL; });
    case MADV_NOHUGEPAGE:
    case MADV_UNMERGEABLE:
    case MADV_DONTDUMP:
    case MADV_DODUMP:
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE: return system_call(SYS_madvise, address, bytes, advice);
    // It may discard pages, of which copies are far (MADV_GUARD_INSTALL does): as on a kernel that does not know it.
    default: return -EINVAL;
  }
}

long lock(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t within = address % kPageBytes;
  return divide(address - within, bytes + within, SYS_mlock, 0,
                [](const Part& part) { return hint_used(Hint::pinned, part); });
}

long unlock(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t within = address % kPageBytes;
  return divide(address - within, bytes + within, SYS_munlock, 0,
                [](const Part& part) { return ask_about_used(DaemonPacketKind::unpin, Hint::none, part); });
}

long remap(std::uint64_t address, std::uint64_t bytes, std::uint64_t new_bytes, int flags, std::uint64_t place) {
  bytes = checked_bytes(address, bytes);
  new_bytes = checked_bytes(address, new_bytes);
  const bool moves_to_place = (flags & MREMAP_FIXED) != 0;
  if (bytes == 0 || new_bytes == 0 || (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) != 0) return -EINVAL;
  if (moves_to_place) {
    if ((flags & MREMAP_MAYMOVE) == 0 || checked_bytes(place, new_bytes) == 0) return -EINVAL;
    if (place < address + bytes && address < place + new_bytes) return -EINVAL;
  }
  {
    const Held held;
    if (!is_used(address, bytes)) return -EFAULT;
    if (!moves_to_place && new_bytes > bytes && extend(address + bytes, address + new_bytes)) {
      return static_cast<long>(address);
    }
  }
  if (!moves_to_place && new_bytes <= bytes) {
    const long error = new_bytes == bytes ? 0 : unmap(address + new_bytes, bytes - new_bytes);
    return error == 0 ? static_cast<long>(address) : error;
  }
  if ((flags & MREMAP_MAYMOVE) == 0) return -ENOMEM;
  const long target = moves_to_place ? place_at(place, new_bytes) : map(new_bytes, kReadWrite);
  if (target < 0) return target;
  // To be read; it goes in any case.
  if (const long error = unprotect({address, address + bytes, Use::used}); error != 0) {
    static_cast<void>(unmap(static_cast<std::uint64_t>(target), new_bytes));
    return error;
  }
  copy_pages(address, static_cast<std::uint64_t>(target), std::min(bytes, new_bytes));
  static_cast<void>(unmap(address, bytes));
  return target;
}

// Under the lock, as every request: a child of fork must not inherit its connection.
void allocated(const AddressRange& range, std::uint64_t caller) {
  const Held held;
  static_cast<void>(ask(DaemonPacketKind::allocated, caller, {&range, 1}));
}

// From here to `release` or `leave`, in this process or its copy: clang cannot follow that.
void hold() NO_THREAD_SAFETY_ANALYSIS {
  SignalsHeld::Mask before = 0;
  SignalsHeld::hold(before);
  state.lock.lock();
  state.mask_before_fork = before;
}

void release() NO_THREAD_SAFETY_ANALYSIS {
  const SignalsHeld::Mask before = state.mask_before_fork;
  state.lock.unlock();
  SignalsHeld::restore(before);
}

void leave() NO_THREAD_SAFETY_ANALYSIS {
  state.zone_count = 0;
  state.lock.unlock();  // a thread that is not in the copy may have had it
}

}  // namespace farside::far_preload::arena
