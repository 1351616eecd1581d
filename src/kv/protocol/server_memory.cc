#include "kv/protocol/server_memory.h"

#include <bit>

#include "farside/base/error.h"

#include "kv/protocol/index_words.h"

namespace farside::kv {

ServerMemory ServerMemory::of(const RemoteRegion& region, const MemoryHead& head) {
  const std::uint64_t most_buckets = region.bytes() / sizeof(IndexBucketWords);
  const bool is_sound = head.magic == MemoryHead::kMagic && std::has_single_bit(head.index_buckets) &&
                        head.index_buckets <= most_buckets && head.index_offset % sizeof(IndexBucketWords) == 0 &&
                        head.index_offset <= region.bytes() - head.index_buckets * sizeof(IndexBucketWords);
  if (!is_sound) {
    throw Error({"use", "the memory of a key-value server, " + region.name(), "it is not laid out as one",
                 "see that client and server are of one version of farside"});
  }
  return {&region, head.index_offset, head.index_buckets};
}

}  // namespace farside::kv
