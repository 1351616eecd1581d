// host.h — what the host fabric offers to other programs of its host, beyond one-sided access.
#pragma once

#include <cstdint>

#include "farside/base/fd.h"
#include "farside/fabric/region.h"

namespace farside {

/// The memory file behind a region, to be handed to programs of this host that map it.
struct RegionFile {
  Fd read_only;              ///< opened for reading alone: who gets it can map, but not write
  std::uint64_t file_bytes;  ///< all of it
  std::uint64_t offset;      ///< of the region's first byte: the fabric keeps something of its own before it
};

/// Throws Error when `region` is not one of the host fabric.
[[nodiscard]] RegionFile open_region_file(const Region& region);

}  // namespace farside
