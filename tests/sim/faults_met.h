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

/// Faults that a step does not meet, and why.
struct Unmet {
  std::string_view step;  ///< as in FaultCount's table, or its beginning; empty: every step
  std::vector<Fault> faults;
  std::string_view why;
  bool is_rare = false;  ///< it is met now and then; otherwise never

  [[nodiscard]] bool covers(std::string_view pair) const {
    const auto is_of = [pair](Fault fault) { return pair.ends_with(": " + std::string(to_string(fault))); };
    return pair.starts_with(step) && std::ranges::any_of(faults, is_of);
  }
};
using UnmetList = std::vector<Unmet>;
inline constexpr bool kRare = true;

/// Of steps that are so rare that a fault meets them by chance.
inline std::vector<Fault> every_fault() {
  std::vector<Fault> all;
  for (std::size_t fault = 0; fault < FaultCount::kFaults; ++fault) all.push_back(static_cast<Fault>(fault));
  return all;
}

/// Of protocols that leave that to their team.
inline Unmet nothing_is_revoked() { return {"", {Fault::access_taken}, "the protocol revokes nothing"}; }

/// Nearly every WRITE completes before its answer. The flush after it reports the loss of its target.
inline Unmet writes_complete_early() {
  return {"WRITE", {Fault::answer_lost}, "a WRITE completes before its answer", kRare};
}
/// In protocols that flush what they write before they fence.
inline Unmet fences_find_all_over() {
  return {"fence",
          {Fault::timed_out, Fault::link_replaced, Fault::target_died},
          "what was posted before was waited for or flushed",
          kRare};
}

/// Prints the table. Fails for each pair of step and fault that was not met, unless `unmet` has it; for each pair that
/// was met though `unmet` says that it never is; and for what is in `unmet` of no step.
inline void expect_each_met(const FaultCount& count, const UnmetList& unmet) {
  std::cout << count.table();
  const std::set<std::string> met = count.met();
  const std::set<std::string> missing = count.missing();
  for (const std::string& pair : missing) {
    const auto covers = [&pair](const Unmet& each) { return each.covers(pair); };
    if (std::ranges::none_of(unmet, covers)) ADD_FAILURE() << "no seed meets " << pair;
  }
  for (const Unmet& each : unmet) {
    const auto covers = [&each](const std::string& pair) { return each.covers(pair); };
    for (const std::string& pair : met) {
      if (!each.is_rare && covers(pair)) ADD_FAILURE() << "met all the same: " << pair << ", though " << each.why;
    }
    if (std::ranges::none_of(missing, covers) && std::ranges::none_of(met, covers)) {
      ADD_FAILURE() << "there is no step " << each.step << ", of which it is said: " << each.why;
    }
  }
}

/// What went wrong in `run`, whose faults are counted.
template <class Run>
std::optional<std::string> run_counted(Run&& run, FaultCount& count) {
  run.world().wires().count_faults(count);
  return run.run();
}

/// `run(seed, count)` says what went wrong, and counts. Under fewer seeds than `usual` the table is printed and nothing
/// is expected of it. Without `unmet` nothing is counted.
template <class Run>
void expect_kept(std::uint64_t usual, Run run, const std::optional<UnmetList>& unmet) {
  const SeedWindow seeds = seed_window(usual);
  FaultCount count;
  EXPECT_EQ(first_violation(seeds, [&](std::uint64_t seed) { return run(seed, count); }), std::nullopt);
  if (!unmet) return;
  if (seeds.count < usual) {
    std::cout << count.table();
  } else {
    expect_each_met(count, *unmet);
  }
}

}  // namespace farside::sim
