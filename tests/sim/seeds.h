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

inline std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* const wanted = std::getenv(name);
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : otherwise;
}

/// FARSIDE_SIM_SEEDS, where that is set, instead of what is usual.
inline std::uint64_t seeds_or(std::uint64_t usual) { return number_from_environment("FARSIDE_SIM_SEEDS", usual); }

/// A range of seeds.
struct SeedWindow {
  std::uint64_t first;
  std::uint64_t count;
};

/// FARSIDE_SIM_SEEDS seeds from FARSIDE_SIM_FIRST_SEED on, for tests of what must hold. Otherwise the first `usual`.
inline SeedWindow seed_window(std::uint64_t usual) {
  return {number_from_environment("FARSIDE_SIM_FIRST_SEED", 1), seeds_or(usual)};
}

/// What the first seed of `seeds` brings up for which `run(seed)` finds something wrong, if there is one.
template <class Run>
std::optional<std::string> first_violation(SeedWindow seeds, Run run) {
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    if (const std::optional<std::string> violation = run(seed)) return *violation + ", seed " + std::to_string(seed);
  }
  return std::nullopt;
}

/// The same for the seeds from 1 to `seeds`.
template <class Run>
std::optional<std::string> first_violation(std::uint64_t seeds, Run run) {
  return first_violation(SeedWindow{1, seeds}, run);
}

/// Whether something was found, which the test's record then tells.
inline bool noticed(const std::optional<std::string>& found) {
  testing::Test::RecordProperty("found", found.value_or("nothing"));
  return found.has_value();
}

/// All that the memory model allows. Under every second seed the order comes from priorities, under every third one
/// links break, under two of four the words of bulk transfers are not split, under every fifth one a timeout leaves its
/// link as it is, under every seventh one a flush does, and under every eleventh one a fence is a flush.
inline Network harshest(std::uint64_t seed) {
  Network network;
  network.grain_bytes = seed % 4 < 2 ? 4 : 8;
  network.prioritizes = seed % 2 == 0;
  network.breaks_links = seed % 3 == 0;
  network.replaces_links = seed % 5 != 0;
  network.flushes_replace_links = seed % 7 != 0;
  network.fences_flush = seed % 11 == 0;
  return network;
}

/// Any set of what the memory model allows; the dead do not answer.
inline Network draw_network(Scheduler& dice) {
  Network network;
  network.grain_bytes = scenario::draw_grain(dice);
  for (const scenario::NamedSwitch& each : scenario::named_switches()) network.*each.on = dice.one_in(2);
  network.dead_memory_answers = false;
  network.detection = std::chrono::milliseconds(2);
  return network;
}

}  // namespace farside::sim
