// server_memory.h — a server's memory, as its clients reach it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "farside/fabric/channel.h"
#include "farside/fabric/region.h"

#include "kv/protocol/layout.h"
#include "kv/protocol/requests.h"

namespace farside::kv {

struct ServerMemory {
  const RemoteRegion* region = nullptr;
  std::uint64_t index_offset = 0;
  std::uint64_t index_buckets = 0;

  /// As its head says. None: it could not be READ. Throws Error when it is not a server's memory.
  [[nodiscard]] static std::optional<ServerMemory> read(Channel& channel, const RemoteRegion& region,
                                                        Deadline deadline);
};

/// Whether there can be such a record: what a server, or its memory, says of its place is not believed.
[[nodiscard]] inline bool fits(const RecordPlace& record, const RemoteRegion& memory) {
  return record.bytes >= sizeof(RecordHead) && record.bytes <= kMaxMessageBytes &&
         record.offset + record.bytes <= memory.bytes();
}

/// By server number.
using ServerMemories = std::span<const ServerMemory>;

[[nodiscard]] inline const ServerMemory& memory_of(ServerMemories servers, const KeyId& key) {
  return servers[server_of(key, static_cast<ServerNumber>(servers.size()))];
}

}  // namespace farside::kv
