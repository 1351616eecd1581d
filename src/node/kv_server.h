// kv_server.h — a node's part of the key-value store: a server in a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "farside/team/team.h"

#include "kv/service/service.h"
#include "node/pool_directory.h"

namespace farside {

class KvServer {
 public:
  /// Collective. Serves with `bytes` of memory until destroyed, as server `rank` of as many as the team has ranks: in
  /// `pool`, and, in a pool on several machines, on the port of the coordinator + 1 + rank of this one. Throws Error
  /// when it cannot listen there, has not the memory, or cannot recover from its journal.
  KvServer(const PoolDirectory& pool, Team& team, std::uint64_t bytes,
           const std::optional<kv::JournalSettings>& journal);

 private:
  const std::unique_ptr<SymmetricRegion> addresses_;  ///< null on one machine
  kv::Service service_;
  std::jthread thread_;
};

}  // namespace farside
