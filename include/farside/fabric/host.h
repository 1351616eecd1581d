// host.h — what the host fabric offers beyond one-sided access.
#pragma once

#include <cstdint>

#include "farside/base/fd.h"
#include "farside/fabric/region.h"

namespace farside {

class Fabric;

/// For a service that ends, before its regions go: peers that reach this process through UCX get no answer any more, so
/// their operations end when they learn that it is lost. Otherwise one that comes too late would find blank memory and
/// seem to succeed (docs/protocols/fabric.md, Limits). Peers that have the memory mapped keep it. For good; not by two
/// threads at once. Throws Error when `fabric` is not a host fabric.
void stop_answering(Fabric& fabric);

/// The memory file behind a region, to be handed to programs of this host that map it.
struct RegionFile {
  Fd read_only;              ///< mappings of it cannot be made writable; see docs/protocols/fabric.md
  std::uint64_t file_bytes;  ///< all of it
  std::uint64_t offset;      ///< of the region's first byte: the fabric keeps something of its own before it
};

/// Throws Error when `region` is not one of the host fabric.
[[nodiscard]] RegionFile open_region_file(const Region& region);

/// Takes the machine's memory for a part of `region` that will be used soon, in large pages where the kernel has them.
/// That is several times cheaper than a page fault for every 4 KiB, and so is reading it afterwards. Only a hint: it
/// changes no contents, and without it memory is taken as it is touched. May take milliseconds. Any thread may call it
/// while others use the region. Throws Error when `region` is not one of the host fabric, or out of range.
void populate(const Region& region, std::uint64_t offset, std::uint64_t bytes);

/// Gives the machine's memory behind a part of `region` back: it reads as zeros afterwards. (Where a NIC may have it
/// registered it is only zeroed: the NIC would keep the old pages.) Throws as populate does.
void release(const Region& region, std::uint64_t offset, std::uint64_t bytes);

}  // namespace farside
