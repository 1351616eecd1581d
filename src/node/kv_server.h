// kv_server.h — a node's part of the key-value store: a server in a thread of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <thread>

#include "farside/team/team.h"

#include "kv/service/service.h"
#include "node/pool_directory.h"

namespace farside {

class KvServer {
 public:
  /// Serves with `bytes` of memory until destroyed, as server `rank` of as many as the team has ranks. Throws Error
  /// when it cannot listen in `pool`, has not the memory, or cannot recover from its journal.
  KvServer(const PoolDirectory& pool, const Team& team, std::uint64_t bytes,
           const std::optional<kv::JournalSettings>& journal);

 private:
  kv::Service service_;
  std::jthread thread_;
};

}  // namespace farside
