// slab_list.h — which slabs of a space a list of transfers lies in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "farside/far/space.h"

namespace farside::far {

/// The pages of one fault lie in so many slabs at most: with room reserved for them, no memory is allocated.
inline constexpr std::size_t kSlabsOfAFault = 128;

/// In order, each once. Throws Error when the list reaches beyond the space.
void collect_slabs(std::span<const Transfer> list, std::uint64_t space_bytes, std::uint64_t slab_bytes,
                   std::vector<std::uint64_t>& slabs);

}  // namespace farside::far
