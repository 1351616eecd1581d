// pool_health.h — what can be learnt of a pool from this machine, and what of it is not as it should be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "farside/kv/client.h"

#include "far/service/pool_use.h"
#include "node/pool/pool.h"

namespace farside::cli {

/// The reports of its servers, by number; or why they do not report.
struct KvStatus {
  std::vector<kv::MemoryUse> servers;
  std::vector<std::uint32_t> copies;  ///< of what each has
  std::string failure;
};

/// The memory that each node lends, by number; or why it is unknown.
struct FarStatus {
  std::vector<std::optional<far::LentUse>> nodes;
  std::string failure;
};

struct PoolHealth {
  node::PoolStatus pool;                ///< of this machine's nodes, and which of the others are lost
  std::optional<KvStatus> kv;           ///< of all machines'; none: the pool keeps no keys
  std::optional<FarStatus> far;         ///< of all machines'; none: the pool lends no memory
  std::vector<std::string> problems{};  ///< what is degraded or lost, a sentence each; none: all is well
};

/// Asks the servers and the lenders that the pool has, for some seconds each.
[[nodiscard]] PoolHealth ask_health(node::PoolStatus pool);

[[nodiscard]] std::string state_text(const node::NodeStatus& node);

}  // namespace farside::cli
