#include "allocated.h"

#include <cstdint>

#include "arena.h"
#include "ranges.h"

namespace far_preload = farside::far_preload;
using far_preload::kPageBytes;

constinit std::size_t farside_far_large_bytes = SIZE_MAX;

void farside_far_allocated(const void* begin, std::size_t bytes, const void* caller) {
  const auto first = reinterpret_cast<std::uint64_t>(begin) & ~(kPageBytes - 1);
  const std::uint64_t end = (reinterpret_cast<std::uint64_t>(begin) + bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  if (!far_preload::arena::is_within(first, end - first)) return;
  far_preload::arena::allocated({first, end - first}, reinterpret_cast<std::uint64_t>(caller));
}
