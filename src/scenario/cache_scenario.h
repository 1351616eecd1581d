// cache_scenario.h — nodes that read blocks of an imaginary file system out of caches that are too small, on the
// harshest network there is, while nodes pause and die.
//
// Guarantees that are checked:
//   while faults last   a read never yields bytes of another block or a mixture; node 0, which is never stopped, always
//                       gets an answer; if no fault hits a node and nothing is dropped, a block is read from
//                       the file system at most once a group
//   then they heal      every node that lives gets every block, each within kLivenessBound
//   when all is quiet   no cell of the directory names a node that lacks the block, or a loader that is none; after
//                       a fault such a cell is gone after the next acquisition that follows it
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "farside/cache/cache.h"

#include "cache/rules.h"
#include "sim/world.h"

namespace farside::scenario {

/// Within which, by its own clock, a node gets any block once all faults have healed: waiting for a lease, confirming a
/// claim that its owner left (100 ms), and the steps themselves.
inline constexpr Duration kLivenessBound = std::chrono::milliseconds(500);

/// Everything about a run but its seed.
struct CacheScenario {
  std::uint32_t nodes = 3;
  std::uint32_t threads = 2;  ///< of each node
  std::uint32_t reads = 12;   ///< of each thread
  std::uint32_t blocks = 8;   ///< that they choose from
  std::uint32_t slots = 4;    ///< of each node
  std::uint32_t groups = 1;
  std::uint32_t deaths = 0;
  std::uint32_t restarts = 0;  ///< the first nodes that die come back, empty
  std::uint32_t pauses = 0;
  std::uint32_t stalls = 0;           ///< of links, in one direction
  std::uint32_t max_stall_ms = 3000;  ///< of half of them; the others are short
  std::uint32_t load_us = 20;         ///< the longest time that the file system takes for a word
  std::uint32_t lease_ms = 5;
  bool impatient = false;    ///< nodes but the first often give up early
  bool all_at_once = false;  ///< every thread reads the blocks in the same order, not at random
  bool has_keepers = false;  ///< a thread of each node renews the leases of its loads, as nodes have one
  sim::Network network;
  cache::CacheRules rules;
};

struct CacheResult {
  std::optional<std::string> violation;
  std::uint64_t hash = 0;
  std::uint64_t loads = 0;         ///< of the file system
  std::vector<std::string> steps;  ///< up to the violation, when they were asked for
};

/// Counts in `count`, if given, the faults that each step of the protocol meets.
[[nodiscard]] CacheResult run_cache_scenario(std::uint64_t seed, const CacheScenario& scenario, bool keep_steps = false,
                                             sim::FaultCount* count = nullptr);

}  // namespace farside::scenario
