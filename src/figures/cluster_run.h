// cluster_run.h — one performance run: a program on every node reads a file, through the cache or without it.
#pragma once

#include <cstdint>

#include "farside/cache/cache.h"

#include "cache/rules.h"
#include "figures/workload.h"
#include "sim/machine.h"

namespace farside::figures {

struct Cluster {
  sim::Machine machine;
  team::Rank nodes;
  cache::CacheOptions cache;
  cache::CacheRules rules;
};

/// The results of a run. Times are virtual.
struct Measured {
  double seconds = 0;  ///< from when all began until the last was through
  double bytes = 0;    ///< that the programs got
  std::uint64_t blocks_in_file = 0;
  std::uint64_t loads = 0;          ///< blocks that came from the file system
  std::uint64_t copies = 0;         ///< blocks that came from a peer
  std::uint64_t hits = 0;           ///< blocks that the node had
  std::uint64_t operations = 0;     ///< one-sided, of all nodes
  std::uint64_t busiest_bytes = 0;  ///< bulk out of the NIC that sent most
  double loading_seconds = 0;       ///< of all nodes, until a block came that they loaded themselves
  double copying_seconds = 0;       ///< until a block came from a peer, the wait for its loader included
  double file_busy = 0;             ///< share of the file system's bandwidth that was used
  std::uint64_t held = 0;           ///< blocks in all caches at the end
  std::uint64_t distinct = 0;       ///< of these, different ones

  [[nodiscard]] double bytes_per_s() const { return bytes / seconds; }
  /// How often the file system was asked for each block of the file.
  [[nodiscard]] double loads_per_block() const {
    return static_cast<double>(loads) / static_cast<double>(blocks_in_file);
  }
};

[[nodiscard]] Measured run_cached(std::uint64_t seed, const Cluster& cluster, const Workload& workload);
/// Every read goes to the file system: POSIX without a cache.
[[nodiscard]] Measured run_uncached(std::uint64_t seed, const Cluster& cluster, const Workload& workload);

}  // namespace farside::figures
