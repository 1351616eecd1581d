// Pages that move (src/gas/protocol), under many seeds, with all rules and with each of them broken.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/sim/faults_met.h"
#include "tests/sim/gas/gas_run.h"

namespace farside::sim {
namespace {

constexpr std::uint64_t kSeeds = 500;

GasScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 7919);
  GasScenario scenario;
  scenario.ranks = 2 + static_cast<team::Rank>(dice.random() % 3);
  scenario.threads = 1 + dice.random() % 2;
  scenario.shape.pages = 1 + dice.random() % 4;
  scenario.shape.page_bytes = 8 * (1 + dice.random() % 2);
  scenario.shape.slots = scenario.shape.pages + 1;
  scenario.shape.cached_places = 1 + dice.random() % scenario.shape.pages;
  scenario.one_in_owns = 2 + dice.random() % 3;
  scenario.network = draw_network(dice);
  if (dice.one_in(2)) {
    scenario.pauses = static_cast<int>(dice.random() % 4);
    scenario.stalls = static_cast<int>(dice.random() % 4);
    scenario.deaths = dice.one_in(4) ? 0 : 1;
    scenario.impatient = dice.one_in(2);
  }
  if (dice.one_in(2)) {  // half of what one rank posts is later than a lease
    scenario.network.lands_late = true;
    scenario.network.long_latency = 4 * GasRun::kLease;
    scenario.network.slow_process = static_cast<std::uint32_t>(dice.random() % scenario.ranks);
  }
  return scenario;
}

std::optional<std::string> violation(const gas::GasRules& rules) {
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    GasScenario scenario = draw(seed);
    scenario.rules = rules;
    return GasRun(seed, scenario).run();
  });
}

bool caught(const gas::GasRules& rules) { return noticed(violation(rules)); }

TEST(GasSim, KeepsItsPromisesUnderEverySeed) {
  const auto run = [](std::uint64_t seed, FaultCount& count) {
    const GasScenario scenario = draw(seed);
    name_places(count, scenario);
    return run_counted(GasRun(seed, scenario), count);
  };
  expect_kept(kSeeds, run,
              UnmetList{writes_complete_early(),
                        {"READ word of a rank",
                         {Fault::landed_orphaned, Fault::access_taken, Fault::answer_lost},
                         "few die then",
                         kRare},
                        {"READ slot", {Fault::answer_lost}, "few die then", kRare},
                        {"atomic word of a rank", {Fault::access_taken}, "few are evicted then", kRare},
                        {"WRITE slot",
                         {Fault::poster_stopped, Fault::landed_orphaned, Fault::target_stopped, Fault::link_cut,
                          Fault::access_taken},
                         "few words of a page are put to",
                         kRare},
                        {"READ slot", {Fault::landed_orphaned, Fault::access_taken}, "few die then", kRare},
                        {"atomic slot",
                         {Fault::poster_stopped, Fault::poster_died, Fault::landed_orphaned, Fault::target_stopped,
                          Fault::target_died, Fault::link_cut, Fault::access_taken},
                         "few words of a page are changed by atomics",
                         kRare}});
}

TEST(GasSimRules, CatchesAnEntryReadBeforeRegistering) { EXPECT_TRUE(caught({.registers_before_reading = false})); }
TEST(GasSimRules, CatchesARegistrationThatDoesNotShow) { EXPECT_TRUE(caught({.registering_shows = false})); }
TEST(GasSimRules, CatchesWhoKeepsThePlaceOfAPageThatIsMoved) { EXPECT_TRUE(caught({.keeps_only_what_rests = false})); }
TEST(GasSimRules, CatchesRevokingByAFlag) { EXPECT_TRUE(caught({.revoking_counts = false})); }

TEST(GasSimRules, CatchesAGetWithoutALookAfterwards) { EXPECT_TRUE(caught({.looks_after_reading = false})); }

TEST(GasSimRules, CatchesAPutWithoutALookBefore) { EXPECT_TRUE(caught({.looks_before_writing = false})); }
TEST(GasSimRules, CatchesWhoPassesAHoldWithoutEvicting) { EXPECT_TRUE(caught({.evicts_before_passing = false})); }

TEST(GasSimRules, CatchesAHoldForTwoThreads) { EXPECT_TRUE(caught({.each_thread_has_a_hold = false})); }
TEST(GasSimRules, CatchesAHoldThatEndsBeforeItsPut) { EXPECT_TRUE(caught({.flushes_before_letting_go = false})); }

TEST(GasSimRules, CatchesSharersReadBeforeTheLock) { EXPECT_TRUE(caught({.locks_before_reading_sharers = false})); }
TEST(GasSimRules, CatchesAMoveThatWaitsForNoHold) { EXPECT_TRUE(caught({.awaits_holds = false})); }
TEST(GasSimRules, CatchesWhoForgetsThoseItHasNotTold) { EXPECT_TRUE(caught({.forgets_what_was_told = false})); }
TEST(GasSimRules, CatchesWhoForgetsBeforePublishing) { EXPECT_TRUE(caught({.forgets_after_publishing = false})); }
TEST(GasSimRules, CatchesPublishingByWrite) { EXPECT_TRUE(caught({.publishes_by_compare_swap = false})); }

TEST(GasSimRules, CatchesASlotThatIsFreeBeforePublishing) { EXPECT_TRUE(caught({.frees_after_publishing = false})); }
TEST(GasSimRules, CatchesASlotThatIsFreeThoughItMayBePublished) {
  EXPECT_TRUE(caught({.keeps_what_is_in_doubt = false}));
}

}  // namespace
}  // namespace farside::sim
