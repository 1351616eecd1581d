// node.h — a process that lends memory to a pool and serves its host's programs over its socket.
#pragma once

#include <cstdint>
#include <functional>

#include "farside/cache/cache.h"

#include "node/kv_server.h"
#include "node/pool/pool_directory.h"

namespace farside::node {

/// Joins the team that the environment names, and serves at its rank's socket in `pool` until SIGTERM or SIGINT;
/// unless `kv` has no memory, as a key-value server as well, which keeps a journal, if any, in a directory of its rank
/// within that of `kv`; and it lends `far_bytes`, unless that is 0. Calls `joined` with its rank before it serves.
/// Throws Error when it cannot begin. For the main thread of a process of its own, before it starts any other.
void run_node(const PoolDirectory& pool, const cache::CacheOptions& options, const KvNodeOptions& kv,
              std::uint64_t far_bytes, const std::function<void(team::Rank)>& joined);

}  // namespace farside::node
