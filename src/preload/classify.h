// classify.h — which descriptors are read from the pool.
#pragma once

#include "descriptors.h"

namespace farside::preload {

/// A descriptor whose reads come from the pool, as it was when a read began.
struct CachedDescriptor {
  Descriptor* place = nullptr;
  Descriptor::Look seen{};
  CachedFile file{};
  std::uint64_t now_ns = 0;  ///< coarse_now_ns()

  explicit operator bool() const { return place != nullptr; }
  /// From now on its reads pass to the kernel.
  void pass() const { place->record(seen, Kind::passing, file); }
};

/// Finds out what `fd` is at the first call for it, and looks now and then whether the file is still the same version.
CachedDescriptor cached_descriptor(int fd);

}  // namespace farside::preload
