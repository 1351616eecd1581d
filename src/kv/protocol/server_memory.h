// server_memory.h — a server's memory, as its clients reach it.
#pragma once

#include <cstdint>
#include <span>

#include "farside/fabric/region.h"

#include "kv/protocol/key_id.h"

namespace farside::kv {

struct ServerMemory {
  const RemoteRegion* region = nullptr;
  std::uint64_t index_offset = 0;
  std::uint64_t index_buckets = 0;
};

/// By server number.
using ServerMemories = std::span<const ServerMemory>;

[[nodiscard]] inline const ServerMemory& memory_of(ServerMemories servers, const KeyId& key) {
  return servers[server_of(key, static_cast<ServerNumber>(servers.size()))];
}

}  // namespace farside::kv
