// host_index.h — the node's side of the host index (block.h): one writer, under the slot index's lock.
#pragma once

#include <bit>
#include <cstdint>

#include "farside/cache/cache.h"

#include "base/assert.h"

namespace farside::cache {

class HostIndex {
 public:
  HostIndex(const CacheLayout& layout, const Region& region) : layout_(layout), region_(&region) {
    assert_that(std::has_single_bit(layout.index_buckets), "the number of index buckets is a power of two");
  }

  /// Overwrites an entry when the bucket is full: its programs ask the node again, once.
  void add(BlockId id, std::uint32_t slot) const;
  void remove(BlockId id, std::uint32_t slot) const;

 private:
  [[nodiscard]] LocalWord<ControlWord> word(BlockId id, std::uint64_t position) const;

  CacheLayout layout_;
  const Region* region_;
};

}  // namespace farside::cache
