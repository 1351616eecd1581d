// The cache on the harshest network there is.
#include <array>

#include <gtest/gtest.h>

#include "scenario/named.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

constexpr std::uint64_t kSeeds = 2000;

std::optional<std::string> violation(std::string_view name, std::uint64_t seed, FaultCount& count) {
  const scenario::NamedScenario& scenario = *scenario::find_scenario(name);
  const scenario::CacheScenario drawn = scenario.draw(seed);
  const scenario::CacheResult result = scenario::run_cache_scenario(seed, drawn, false, &count);
  if (!result.violation) return std::nullopt;
  return *result.violation + ": " + scenario::command_for(seed, scenario, drawn);
}

void expect_no_violation(std::string_view name, std::uint64_t seeds, const std::optional<UnmetList>& unmet = {}) {
  expect_kept(
      seeds, [&](std::uint64_t seed, FaultCount& count) { return violation(name, seed, count); }, unmet);
}

TEST(CacheSim, KeepsItsPromisesUnderEverySeed) {
  const Unmet few_die{"READ", {Fault::answer_lost}, "few die while they are READ", kRare};
  expect_no_violation("cache", kSeeds, UnmetList{nothing_is_revoked(), few_die});
}
TEST(CacheSim, KeepsThemUnderManyFaultsOfEachKind) { expect_no_violation("storm", kSeeds / 100); }
TEST(CacheSim, KeepsThemWhileSlotsAreRecycledAllTheTime) { expect_no_violation("recycle", kSeeds / 2); }
TEST(CacheSim, KeepsThemWithMoreThreadsThanSlots) { expect_no_violation("jam", kSeeds / 2); }
// A hundred deaths each, so there are fewer seeds.
TEST(CacheSim, KeepsThemToAndOfNodesThatComeBack) {
  const std::vector<Fault> of_stops{Fault::poster_stopped, Fault::target_stopped, Fault::link_cut};
  const std::vector<Fault> of_time_outs{Fault::timed_out, Fault::landed_given_up};
  UnmetList unmet{nothing_is_revoked(),
                  {"atomic", {Fault::link_replaced}, "nothing is under way beside one"},
                  {"READ slot id", {Fault::link_replaced}, "a slot's id and token are READ together", kRare},
                  {"READ slot token", {Fault::link_replaced}, "a slot's id and token are READ together", kRare}};
  for (const std::string_view step : {"READ alternative", "READ bucket", "READ slot header"}) {
    unmet.push_back({step, {Fault::link_replaced}, "nothing is under way beside one", kMayBeZero});
  }
  for (const std::string_view step : {"READ", "atomic"}) {
    unmet.push_back({step, of_stops, "nodes do nothing but die and come back"});
    unmet.push_back({step, of_time_outs, "a read has time for each step"});
    unmet.push_back({step, {Fault::answer_lost}, "the memory of the dead answers"});
  }
  expect_no_violation("restart", kSeeds * 3 / 20, unmet);
}
TEST(CacheSim, AsksTheFileSystemOnceForWhatAllWantAtOnce) { expect_no_violation("crowd", kSeeds / 2); }

TEST(CacheSim, AsksItOnceThoughItTakesLongerThanALease) { expect_no_violation("slow", kSeeds / 10); }

TEST(CacheSim, CatchesALoadWhoseLeaseIsNotRenewed) {
  const auto run = [](std::uint64_t seed) {
    scenario::CacheScenario scenario = scenario::find_scenario("slow")->draw(seed);
    scenario.has_keepers = false;
    return scenario::run_cache_scenario(seed, scenario).violation;
  };
  EXPECT_TRUE(noticed(first_violation(kSeeds / 10, run)));
}

// The seed on which a broken rule is noticed, of the first thousand; 0 when it is not, or when the whole protocol fails
// under that seed as well.
std::uint64_t caught(const cache::CacheRules& rules, std::string_view name = "cache") {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    scenario::CacheScenario scenario = scenario::find_scenario(name)->draw(seed);
    scenario.rules = rules;
    if (!scenario::run_cache_scenario(seed, scenario).violation) continue;
    scenario.rules = {};
    return scenario::run_cache_scenario(seed, scenario).violation ? 0 : seed;
  }
  return 0;
}

// A canary: when even this passes, the harness sees nothing.
TEST(CacheSimRules, CatchesACopyThatComparesNothing) {
  EXPECT_NE(caught({.compares_ids = false, .compares_tokens = false, .compares_keys = false}), 0u);
}

// The slot is recycled for another block and then for the same one again (the paper's first case, 2.2.1).
TEST(CacheSimRules, CatchesACopyThatComparesIdsOnly) {
  EXPECT_NE(caught({.compares_tokens = false, .compares_keys = false}, "recycle"), 0u);
}

// The slot was recycled between the look into the directory and the first READ (the paper's second case).
TEST(CacheSimRules, CatchesACopyThatComparesTokensOnly) {
  EXPECT_NE(caught({.compares_ids = false, .compares_keys = false}), 0u);
}

TEST(CacheSimRules, CatchesACopyWithoutTheSecondHeader) { EXPECT_NE(caught({.reads_header_again = false}), 0u); }

// The slot of a node that came back bears the same block again, under as many tokens as in its earlier life.
TEST(CacheSimRules, CatchesATokenWithoutTheIncarnation) {
  EXPECT_NE(caught({.token_tells_lives = false}, "restart"), 0u);
}

TEST(CacheSimRules, CatchesATokenAheadOfItsBytes) { EXPECT_NE(caught({.token_follows_bytes = false}), 0u); }

TEST(CacheSimRules, CatchesACellThatIsOverwrittenInsteadOfExchanged) {
  EXPECT_NE(caught({.cells_are_exchanged = false}), 0u);
}

TEST(CacheSimRules, CatchesACellAheadOfItsBytes) { EXPECT_NE(caught({.cell_follows_bytes = false}), 0u); }

TEST(CacheSimRules, CatchesALeaseThatNeverExpires) { EXPECT_NE(caught({.lease_expires = false}), 0u); }

TEST(CacheSimRules, CatchesALeaseThatNoNodeWaitsFor) { EXPECT_NE(caught({.lease_is_waited_for = false}, "crowd"), 0u); }

TEST(CacheSimRules, CatchesALeaseTakenAsPermissionToReuseMemory) {
  EXPECT_NE(caught({.slot_outlives_lease = false}, "jam"), 0u);
}

TEST(CacheSimRules, CatchesADiscardThatDoesNotLookAgain) { EXPECT_NE(caught({.discard_looks_again = false}), 0u); }

// Seeds that failed once, on a network with the first `switches` of its switches, and what was wrong.
struct Mended {
  std::string_view scenario;
  std::uint64_t seed;
  std::size_t switches;
  std::string_view error;
};
constexpr std::uint32_t kMaxStallThen = 100;
constexpr std::array kRepairedSeeds{
    Mended{"jam", 582, 10, "a block got a second row while a claim of its first one, which was given up, hid that"},
    Mended{"restart", 1795188623, 10, "a claim that landed long after its claimer's death gave a block a second row"},
    Mended{"restart", 1795189662, 10, "the same"},
};

TEST(CacheSim, PassesWhatFailedOnce) {
  for (const Mended& each : kRepairedSeeds) {
    scenario::CacheScenario scenario = scenario::find_scenario(each.scenario)->draw(each.seed);
    scenario.max_stall_ms = kMaxStallThen;
    for (const scenario::NamedSwitch& later : scenario::named_switches().subspan(each.switches))
      scenario.network.*later.on = false;
    const scenario::CacheResult result = scenario::run_cache_scenario(each.seed, scenario);
    EXPECT_FALSE(result.violation) << *result.violation << ", as when " << each.error;
  }
}

TEST(CacheSim, RepeatsARunExactly) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const scenario::CacheScenario scenario = scenario::find_scenario("cache")->draw(seed);
    EXPECT_EQ(scenario::run_cache_scenario(seed, scenario).hash, scenario::run_cache_scenario(seed, scenario).hash)
        << seed;
  }
}

}  // namespace
}  // namespace farside::sim
