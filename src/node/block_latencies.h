// block_latencies.h — how long the node took to bring a block that a program asked for.
//
// From when its turn begins (load_queue.h) until the block is here. A request that waits for another node's load has
// several turns: the last one counts.
//
// Stands alone: the thread that loads records here, the one that answers a status reads.
#pragma once

#include "base/metrics.h"

namespace farside::node {

struct BlockLatencies {
  static constexpr std::string_view kName = "farside_cache_block_seconds";
  static constexpr std::string_view kHelp = "How long the node took to bring a block that a program asked for.";

  /// From another node's memory, or from this node's, into which another request was bringing it.
  metrics::Histogram memory{{kName, kHelp, "from=\"memory\""}};
  metrics::Histogram file{{kName, kHelp, "from=\"file\""}};
};

}  // namespace farside::node
