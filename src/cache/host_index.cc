#include "cache/host_index.h"

#include "base/assert.h"

namespace farside::cache {

namespace {
constexpr std::uint64_t kWords = sizeof(IndexBucket) / sizeof(ControlWord);
}

void HostIndex::add(BlockId id, std::uint32_t slot) const {
  assert_that(slot < kMaximumSlots, "a slot and the one after it have room in an index word");
  std::uint64_t position = 0;
  while (position < kWords && word(id, position).load() != 0) ++position;
  if (position == kWords) position = slot % kWords;
  word(id, position).store(index_word(id, slot));
}

void HostIndex::remove(BlockId id, std::uint32_t slot) const {
  for (std::uint64_t position = 0; position < kWords; ++position) {
    if (word(id, position).load() == index_word(id, slot)) word(id, position).store(0);
  }
}

LocalWord<ControlWord> HostIndex::word(BlockId id, std::uint64_t position) const {
  const std::uint64_t bucket = id & (layout_.index_buckets - 1);
  return region_->word<ControlWord>(layout_.index_offset + bucket * sizeof(IndexBucket) +
                                    position * sizeof(ControlWord));
}

}  // namespace farside::cache
