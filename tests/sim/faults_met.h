// faults_met.h — runs a scenario under many seeds: nothing may be found wrong, and each step of its protocol must meet
// each fault, but for the pairs that cannot occur.
#pragma once

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "sim/fault_count.h"
#include "tests/sim/seeds.h"

namespace farside::sim {

/// A step that cannot meet a fault, and why.
struct Impossible {
  std::string_view step;  ///< as in FaultCount's table, or its beginning; empty: every step
  Fault fault;
  std::string_view why;

  [[nodiscard]] bool covers(std::string_view pair) const {
    return pair.starts_with(step) && pair.ends_with(": " + std::string(to_string(fault)));
  }
};
using Impossibles = std::vector<Impossible>;

/// Of protocols that leave that to their team.
inline constexpr Impossible kNothingIsRevoked{"", Fault::access_taken, "the protocol revokes nothing"};

/// Prints the table. Fails for each pair of step and fault that was not met, unless it is among `impossible`; and for
/// each of `impossible` that was met in spite of its reason.
inline void expect_each_met(const FaultCount& count, const Impossibles& impossible) {
  std::cout << count.table();
  for (const std::string& pair : count.missing()) {
    const auto covers = [&pair](const Impossible& each) { return each.covers(pair); };
    if (std::ranges::none_of(impossible, covers)) ADD_FAILURE() << "no seed meets " << pair;
  }
  for (const std::string& pair : count.met()) {
    for (const Impossible& each : impossible) {
      if (each.covers(pair)) ADD_FAILURE() << "met all the same: " << pair << ", though " << each.why;
    }
  }
}

/// Fails for each fault that no step met.
inline void expect_each_fault_met(const FaultCount& count) {
  const std::set<std::string> met = count.met();
  for (std::size_t fault = 0; fault < FaultCount::kFaults; ++fault) {
    const std::string name = ": " + std::string(to_string(static_cast<Fault>(fault)));
    const auto is_of_this = [&name](const std::string& pair) { return pair.ends_with(name); };
    EXPECT_TRUE(std::ranges::any_of(met, is_of_this)) << "no step met" << name;
  }
}

/// What went wrong in `run`, whose faults are counted.
template <class Run>
std::optional<std::string> run_counted(Run&& run, FaultCount& count) {
  run.world().wires().count_faults(count);
  return run.run();
}

/// `run(seed, count)` says what went wrong, and counts. Under fewer seeds than `usual`, and without `impossible`, the
/// table is printed and nothing is expected of it. Returns the count.
template <class Run>
FaultCount expect_kept(std::uint64_t usual, Run run, const std::optional<Impossibles>& impossible = {}) {
  const SeedWindow seeds = seed_window(usual);
  FaultCount count;
  EXPECT_EQ(first_violation(seeds, [&](std::uint64_t seed) { return run(seed, count); }), std::nullopt);
  if (seeds.count < usual || !impossible) {
    std::cout << count.table();
  } else {
    expect_each_met(count, *impossible);
  }
  return count;
}

}  // namespace farside::sim
