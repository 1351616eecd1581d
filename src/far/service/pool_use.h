// pool_use.h — how much of a pool's memory is lent.
//
// Stands alone: `farside status` shows it and knows nothing else of the service.
#pragma once

#include <optional>
#include <vector>

#include "farside/far/pool.h"

#include "far/protocol/lent_memory.h"

namespace farside::far {

/// Returns what each node lends, by number; none: it does not answer. Throws Error when there is no such pool.
[[nodiscard]] std::vector<std::optional<LentUse>> ask_use(const PoolOptions& options);

}  // namespace farside::far
