#include "far/protocol/slab_list.h"

#include <algorithm>
#include <string>

#include "farside/base/error.h"

namespace farside::far {

void collect_slabs(std::span<const Transfer> list, std::uint64_t space_bytes, std::uint64_t slab_bytes,
                   std::vector<std::uint64_t>& slabs) {
  slabs.clear();
  for (const Transfer& transfer : list) {
    const std::uint64_t bytes = transfer.local.bytes();
    if (transfer.offset > space_bytes || bytes > space_bytes - transfer.offset) {
      throw Error({"reach", std::to_string(bytes) + " bytes at " + std::to_string(transfer.offset),
                   "the space has " + std::to_string(space_bytes), ""});
    }
    if (bytes == 0) continue;
    const std::uint64_t last = (transfer.offset + bytes - 1) / slab_bytes;
    for (std::uint64_t slab = transfer.offset / slab_bytes; slab <= last; ++slab) slabs.push_back(slab);
  }
  std::ranges::sort(slabs);
  slabs.erase(std::unique(slabs.begin(), slabs.end()), slabs.end());  // clang-tidy 14 trips over ranges::unique
}

}  // namespace farside::far
