#include "kv/protocol/server_memory.h"

#include <bit>

#include "farside/base/error.h"

#include "kv/protocol/index_words.h"

namespace farside::kv {

std::optional<ServerMemory> ServerMemory::read(Channel& channel, const RemoteRegion& region, Deadline deadline) {
  MemoryHead head{};
  Outcome came = Outcome::link_lost;
  while (came == Outcome::link_lost) came = channel.read(LocalSpan(head), region.span(0, sizeof head), deadline);
  if (came != Outcome::done) return std::nullopt;
  const std::uint64_t most_buckets = region.bytes() / sizeof(IndexBucketWords);
  const bool is_sound = head.magic == MemoryHead::kMagic && std::has_single_bit(head.index_buckets) &&
                        head.index_buckets <= most_buckets && head.index_offset % sizeof(IndexBucketWords) == 0 &&
                        head.index_offset <= region.bytes() - head.index_buckets * sizeof(IndexBucketWords);
  if (!is_sound) {
    throw Error({"use", "the memory of a key-value server, " + region.name(), "it is not laid out as one",
                 "see that client and server are of one version of farside"});
  }
  return ServerMemory{&region, head.index_offset, head.index_buckets};
}

}  // namespace farside::kv
