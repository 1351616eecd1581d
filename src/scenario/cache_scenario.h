// cache_scenario.h — nodes that read random blocks of an imaginary file system out of caches that are too small, on the
// harshest network there is, while nodes pause and die.
//
// What must hold: a read never yields bytes of another block or a mixture; whoever lives gets an answer; a block that
// all want at once is loaded once a group, unless somebody died or was silent for a lease.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farside/cache/cache.h"

#include "cache/rules.h"
#include "sim/world.h"

namespace farside::sim {

/// Everything about a run but its seed.
struct CacheScenario {
  Rank nodes = 3;
  std::uint32_t threads = 2;  ///< of each node
  std::uint32_t reads = 12;   ///< of each thread
  std::uint32_t blocks = 8;   ///< that they choose from
  std::uint32_t slots = 4;    ///< of each node
  std::uint32_t groups = 1;
  std::uint32_t deaths = 0;
  std::uint32_t pauses = 0;
  std::uint32_t cuts = 0;
  Network network;
  CacheRules rules;
};

/// Draws a scenario and a subset of the network's faults.
[[nodiscard]] CacheScenario random_cache_scenario(std::uint64_t seed);

struct CacheResult {
  std::optional<std::string> violation;
  std::uint64_t hash = 0;
  std::uint64_t loads = 0;         ///< of the file system
  std::vector<std::string> steps;  ///< the last ones, when they were asked for
};

[[nodiscard]] CacheResult run_cache_scenario(std::uint64_t seed, const CacheScenario& scenario,
                                             bool keep_steps = false);

}  // namespace farside::sim
