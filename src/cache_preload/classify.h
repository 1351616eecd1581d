// classify.h — which descriptors are read from the pool.
#pragma once

#include <cstddef>

#include "descriptors.h"

namespace farside::cache_preload {

/// A descriptor whose reads come from the pool, as it was when a read began.
struct CachedDescriptor {
  Descriptor* place = nullptr;
  std::uint64_t changes = 0;  ///< of the number's meaning, before it was looked at
  Descriptor::Look seen{};
  CachedFile file{};
  std::uint64_t now_ns = 0;  ///< coarse_now_ns()

  explicit operator bool() const { return place != nullptr; }
  /// From now on its reads pass to the kernel.
  void pass() const { place->record(seen, Kind::passing, file); }
};

/// While this lives, a read goes by the descriptor's number. False when that means something else by now.
class ByNumber {
 public:
  explicit ByNumber(const CachedDescriptor& cached) : ByNumber(*cached.place, cached.changes) {}
  ByNumber(Descriptor& place, std::uint64_t changes)
      : place_(place), changes_(changes), entered_(place.enter(changes)) {}
  ~ByNumber() {
    if (entered_) place_.leave();
  }
  ByNumber(const ByNumber&) = delete;
  ByNumber& operator=(const ByNumber&) = delete;

  /// False, too, once a change of the number has waited for this read for too long.
  explicit operator bool() const { return entered_ && place_.changes() == changes_; }

 private:
  Descriptor& place_;
  std::uint64_t changes_;
  bool entered_;
};

/// Finds out what `fd` is at the first call for it, and looks now and then whether the file is still the same version.
CachedDescriptor cached_descriptor(int fd);

/// Counts a mapping, which the kernel fills, if its file is one of those that the pool would serve.
void note_mapping(int fd, std::size_t bytes);

}  // namespace farside::cache_preload
