// Read-atomic transactions (src/kv/protocol), under many seeds, with all rules and with each of them broken.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/sim/faults_met.h"
#include "tests/sim/kv/kv_run.h"

namespace farside::sim {
namespace {

using kv::KvRules;

constexpr std::uint64_t kSeeds = 1000;

/// So that what timed out is often done after all.
void stop_for_longer_than_time_outs(Scheduler& dice, KvScenario& scenario) {
  scenario.timeout = std::chrono::milliseconds(1) + dice.up_to(std::chrono::milliseconds(2));
  scenario.pauses = 2 + static_cast<int>(dice.random() % 5);
  scenario.stops_servers_only = dice.one_in(2);
  scenario.rounds = 24;
}

KvScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 7919);
  KvScenario scenario;
  scenario.servers = 1 + static_cast<kv::ServerNumber>(dice.random() % 3);
  scenario.clients = 2 + static_cast<team::Rank>(dice.random() % 2);
  scenario.keys = 2 + dice.random() % 4;
  scenario.one_in_erases = dice.one_in(2) ? 1 + dice.random() % 5 : 0;
  scenario.one_in_expires = dice.one_in(4) ? 4 : 0;
  scenario.one_in_conditions = dice.one_in(2) ? 2 : 0;
  if (dice.one_in(3)) scenario.most_value_bytes = 700;
  if (dice.one_in(8)) scenario.fill();
  if (dice.one_in(3)) scenario.grace = std::chrono::microseconds(200) + dice.up_to(std::chrono::milliseconds(2));
  if (dice.one_in(2)) scenario.superseded_bytes = 0;
  if (dice.one_in(3)) scenario.termination_timeout = std::chrono::microseconds(300);
  if (dice.one_in(2)) scenario.most_skew = std::chrono::milliseconds(10);
  scenario.network = draw_network(dice);
  if (dice.one_in(2)) {
    scenario.pauses = static_cast<int>(dice.random() % 4);
    scenario.stalls = static_cast<int>(dice.random() % 4);
    scenario.deaths = static_cast<team::Rank>(dice.random() % 2);
    scenario.server_dies = dice.one_in(4);
  }
  if (dice.one_in(3)) stop_for_longer_than_time_outs(dice, scenario);
  if (scenario.pauses + scenario.stalls != 0 && dice.one_in(2)) scenario.stop_for_longer_than_limits(dice);
  return scenario;
}

using Shape = void (*)(KvScenario&);

KvScenario drawn_as(Shape shape, std::uint64_t seed) {
  KvScenario scenario = draw(seed);
  shape(scenario);
  return scenario;
}

/// Runs `usual` seeds, or those of the window that is asked for. Returns how many puts timed out and were done after
/// all, per seed.
double expect_kept_as(Shape shape, std::uint64_t usual, const std::optional<UnmetList>& unmet = {}) {
  std::uint64_t late_puts = 0;
  const auto run = [&](std::uint64_t seed, FaultCount& count) {
    KvRun kv(seed, drawn_as(shape, seed));
    kv.world().count_faults(count);
    auto found = kv.run();
    late_puts += kv.late_puts();
    return found;
  };
  expect_kept(usual, run, unmet);
  testing::Test::RecordProperty("late_puts", std::to_string(late_puts));
  return static_cast<double>(late_puts) / static_cast<double>(seed_window(usual).count);
}

void any(KvScenario& /*scenario*/) {}

/// Nothing but puts and gets of one small value, which nothing stops.
void busy(KvScenario& scenario) {
  scenario.servers = 1;
  scenario.keys = 1;
  scenario.rounds = 100;
  scenario.one_in_erases = scenario.one_in_expires = scenario.one_in_conditions = 0;
  scenario.most_value_bytes = 24;
  scenario.pauses = scenario.stalls = 0;
  scenario.deaths = 0;
  scenario.server_dies = false;
}

/// Gets that take longer than what was erased stays, if it does not stay for the grace time.
void erasing(KvScenario& scenario) {
  busy(scenario);
  scenario.servers = 2;
  scenario.keys = 3;
  scenario.rounds = 30;
  scenario.one_in_erases = 3;
  scenario.grace = std::chrono::milliseconds(10);
}

/// Puts of which several servers have a part.
void spread(KvScenario& scenario) {
  scenario.servers = 3;
  scenario.keys = 5;
}

/// Sets of keys that are put and got at once, where a get may come between any two steps of a put.
void at_one_server(KvScenario& scenario) {
  busy(scenario);
  scenario.keys = 3;
  scenario.rounds = 30;
}

/// Servers that stand still for longer than clients wait, and do afterwards what the clients have given up.
void late(KvScenario& scenario) {
  busy(scenario);
  scenario.servers = 2;
  scenario.keys = 4;
  scenario.rounds = 60;
  scenario.timeout = std::chrono::milliseconds(1);
  scenario.pauses = 6;
  scenario.stops_servers_only = true;
}

bool caught(const KvRules& rules, Shape shape = any) {
  return noticed(first_violation(kSeeds, [&](std::uint64_t seed) {
    KvScenario scenario = drawn_as(shape, seed);
    scenario.rules = rules;
    return KvRun(seed, scenario).run();
  }));
}

/// A server whose puts take several stops, each longer than a call waits: others are settled meanwhile, and a put may
/// be seen at one of its keys for long before it is there at the others.
void stuttering(KvScenario& scenario) {
  busy(scenario);
  scenario.servers = 2;
  scenario.keys = 4;
  scenario.rounds = 60;
  scenario.timeout = std::chrono::microseconds(300);
  scenario.stutters = 400;
}

TEST(KvSim, KeepsItsPromisesUnderEverySeed) {
  const double late_puts =
      expect_kept_as(any, kSeeds / 2,
                     UnmetList{nothing_is_revoked(),
                               writes_complete_early(),
                               fences_find_all_over(),
                               {"signal", {Fault::target_died}, "a flush reports that first", kMayBeZero},
                               {"READ kv memory",
                                {Fault::poster_died, Fault::landed_orphaned, Fault::answer_lost},
                                "few die while they READ or are READ",
                                kRare},
                               {"atomic kv mailboxes of servers", {Fault::answer_lost}, "few die then", kRare},
                               {"wait kv mailboxes of servers",
                                {Fault::target_died},
                                "a server that has questions open loses few others",
                                kRare},
                               {"WRITE kv mailboxes of servers", every_fault(),
                                "a server asks another one only about transactions in doubt", kRare}});
  EXPECT_GE(late_puts, 0.25);
}
TEST(KvSim, KeepsItsPromisesWhenWhatTimedOutIsDoneAfterAll) { EXPECT_GE(expect_kept_as(late, kSeeds / 5), 2); }

TEST(KvSim, KeepsItsPromisesWhenAServerStutters) { expect_kept_as(stuttering, kSeeds / 50); }

TEST(KvSimRules, CatchesOverwritingInPlace) { EXPECT_TRUE(caught({.records_are_immutable = false})); }
TEST(KvSimRules, CatchesReclamationBeforeTheGraceTime) { EXPECT_TRUE(caught({.keeps_superseded = false}, erasing)); }
TEST(KvSimRules, CatchesAPutThatIsBehind) { EXPECT_TRUE(caught({.refuses_what_is_behind = false})); }
TEST(KvSimRules, CatchesTheLastCommitThatWins) { EXPECT_TRUE(caught({.orders_by_timestamp = false})); }
TEST(KvSimRules, CatchesMarksOfTheThenCurrentVersionOnly) { EXPECT_TRUE(caught({.marks_all_versions = false})); }
TEST(KvSimRules, CatchesAnAnswerBeforeItIsTrue) { EXPECT_TRUE(caught({.visible_before_answering = false}, busy)); }
TEST(KvSimRules, CatchesANoThatIsForgotten) { EXPECT_TRUE(caught({.bars_before_saying_no = false}, spread)); }

TEST(KvSimRules, CatchesAConditionThatIgnoresThePrepared) {
  EXPECT_TRUE(caught({.conditions_heed_the_prepared = false}));
}
TEST(KvSimRules, CatchesALatePrepareBelowAConditionalVersion) { EXPECT_TRUE(caught({.keeps_conditions = false})); }

TEST(KvSimRules, CatchesAGetWithoutSecondRound) { EXPECT_TRUE(caught({.looks_at_siblings = false})); }
TEST(KvSimRules, CatchesTheNewestInPlaceOfAReclaimedVersion) { EXPECT_TRUE(caught({.wants_the_very_version = false})); }
TEST(KvSimRules, CatchesWhoTrustsTornBytes) { EXPECT_TRUE(caught({.compares_checksums = false})); }
TEST(KvSimRules, CatchesWhoLooksAtNoMark) { EXPECT_TRUE(caught({.looks_at_marks = false})); }
TEST(KvSimRules, CatchesASessionThatForgetsWhatItSaw) {
  EXPECT_TRUE(caught({.remembers_what_was_seen = false}, spread));
}

TEST(KvSimRules, CatchesACommitBeforeAllHavePrepared) { EXPECT_TRUE(caught({.commits_after_all_prepared = false})); }
TEST(KvSimRules, CatchesAPutAtOneServerThatNamesNoSiblings) {
  EXPECT_TRUE(caught({.names_siblings_at_one_server = false}, at_one_server));
}
TEST(KvSimRules, CatchesTimestampsThatCollide) { EXPECT_TRUE(caught({.timestamps_are_unique = false})); }

}  // namespace
}  // namespace farside::sim
