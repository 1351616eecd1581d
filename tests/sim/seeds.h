// seeds.h — a scenario under one seed after the other, on networks drawn from it: nothing may be found wrong, unless a
// rule was broken.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "scenario/named.h"
#include "sim/scheduler.h"

namespace farside::sim {

/// FARSIDE_SIM_SEEDS, where that is set, instead of what is usual.
inline std::uint64_t seeds_or(std::uint64_t usual) {
  const char* const wanted = std::getenv("FARSIDE_SIM_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : usual;
}

/// What the first seed from 1 to `seeds` brings up for which `run(seed)` finds something wrong, if there is one.
template <class Run>
std::optional<std::string> first_violation(std::uint64_t seeds, Run run) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    if (const std::optional<std::string> violation = run(seed)) return *violation + ", seed " + std::to_string(seed);
  }
  return std::nullopt;
}

/// Whether something was found, which the test's record then tells.
inline bool noticed(const std::optional<std::string>& found) {
  testing::Test::RecordProperty("found", found.value_or("nothing"));
  return found.has_value();
}

/// All that the memory model allows; under every second seed the order comes from priorities.
inline Network harshest(std::uint64_t seed) {
  Network network;
  network.prioritizes = seed % 2 == 0;
  return network;
}

/// Any set of what the memory model allows; the dead do not answer.
inline Network draw_network(Scheduler& dice) {
  Network network;
  network.grain_bytes = dice.one_in(2) ? 8 : 64;
  for (const NamedSwitch& each : named_switches()) network.*each.on = dice.one_in(2);
  network.dead_memory_answers = false;
  network.detection = std::chrono::milliseconds(2);
  return network;
}

}  // namespace farside::sim
