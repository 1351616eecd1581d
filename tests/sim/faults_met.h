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

/// How often a pair of step and fault is met although `Unmet` names it.
enum class Met : std::uint8_t {
  never,
  rarely,         ///< within kSeedsForRare seeds at least once
  at_most_rarely  ///< perhaps never, as `why` explains
};
inline constexpr Met kRare = Met::rarely;
inline constexpr Met kMayBeZero = Met::at_most_rarely;

/// From so many seeds on the rare pairs that were not met are listed, ...
inline constexpr std::uint64_t kSeedsForList = 5000;
/// ... and from so many on each is a failure.
inline constexpr std::uint64_t kSeedsForRare = 20000;

/// Faults that a step does not meet, and why.
struct Unmet {
  std::string_view step;  ///< as in FaultCount's table, or its beginning; empty: every step
  std::vector<Fault> faults;
  std::string_view why;
  Met met = Met::never;

  [[nodiscard]] bool covers(std::string_view pair) const {
    const auto is_of = [pair](Fault fault) { return pair.ends_with(": " + std::string(to_string(fault))); };
    return pair.starts_with(step) && std::ranges::any_of(faults, is_of);
  }
};
using UnmetList = std::vector<Unmet>;

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
  return {"WRITE", {Fault::answer_lost}, "a WRITE completes before its answer", kMayBeZero};
}
/// In protocols that flush what they write before they fence.
inline Unmet fences_find_all_over() {
  return {"fence",
          {Fault::timed_out, Fault::link_replaced, Fault::target_died},
          "what was posted before was waited for or flushed",
          kMayBeZero};
}

/// Fails for each pair of step and fault that was not met, unless `unmet` has it; for each pair that was met though
/// `unmet` says that it never is; and for what is in `unmet` of no step.
inline void expect_each_met(const FaultCount& count, const UnmetList& unmet) {
  const std::set<std::string> met = count.met();
  const std::set<std::string> missing = count.missing();
  for (const std::string& pair : missing) {
    const auto covers = [&pair](const Unmet& each) { return each.covers(pair); };
    if (std::ranges::none_of(unmet, covers)) ADD_FAILURE() << "no seed meets " << pair;
  }
  for (const Unmet& each : unmet) {
    const auto covers = [&each](const std::string& pair) { return each.covers(pair); };
    for (const std::string& pair : met) {
      if (each.met == Met::never && covers(pair))
        ADD_FAILURE() << "met all the same: " << pair << ", though " << each.why;
    }
    if (std::ranges::none_of(missing, covers) && std::ranges::none_of(met, covers)) {
      ADD_FAILURE() << "there is no step " << each.step << ", of which it is said: " << each.why;
    }
  }
}

/// Lists the pairs that were not met though each entry of `unmet` that covers them says that they rarely are. With
/// `must_be_met` each is a failure.
inline void list_rare(const FaultCount& count, const UnmetList& unmet, bool must_be_met) {
  for (const std::string& pair : count.missing()) {
    bool is_rare = false;
    bool may_be_zero = false;
    for (const Unmet& each : unmet) {
      if (each.covers(pair)) (each.met == Met::rarely ? is_rare : may_be_zero) = true;
    }
    if (!is_rare || may_be_zero) continue;
    std::cout << "rare and not met: " << pair << '\n';
    if (must_be_met) ADD_FAILURE() << "rare, and not met by " << kSeedsForRare << " seeds or more: " << pair;
  }
}

/// What went wrong in `run`, whose faults are counted.
template <class Run>
std::optional<std::string> run_counted(Run&& run, FaultCount& count) {
  run.world().wires().count_faults(count);
  return run.run();
}

/// `run(seed, count)` says what went wrong, and counts. The table is printed. Under `usual` seeds and more each step
/// must meet each fault, but for those in `unmet`; without that the table is all.
template <class Run>
void expect_kept(std::uint64_t usual, Run run, const std::optional<UnmetList>& unmet = {}) {
  const SeedWindow seeds = seed_window(usual);
  FaultCount count;
  EXPECT_EQ(first_violation(seeds, [&](std::uint64_t seed) { return run(seed, count); }), std::nullopt);
  std::cout << count.table();
  if (!unmet) return;
  if (seeds.count >= usual) expect_each_met(count, *unmet);
  if (seeds.count >= kSeedsForList) list_rare(count, *unmet, seeds.count >= kSeedsForRare);
}

}  // namespace farside::sim
