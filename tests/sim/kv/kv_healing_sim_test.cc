// Copies that are made again (docs/protocols/kv_replication.md): a partition that lost its standby, or its primary,
// teaches a spare while it serves. What was acknowledged survives the next death; a spare serves only when it has all.
#include <gtest/gtest.h>

#include "tests/sim/kv/kv_replicas_run.h"

namespace farside::sim {
namespace {

/// Its standby dies, a spare is taught all that the primary has, and then the primary dies.
void healing(KvScenario& scenario) {
  moving(scenario);
  scenario.rounds = 120;
  scenario.one_in_erases = 4;
  scenario.server_dies = false;
  scenario.standby_dies = scenario.has_spares = true;
  scenario.is_apart = false;
  scenario.then = KvScenario::Then::dies_when_full;
}

/// And no put is done while there is one copy.
void healing_before_writes(KvScenario& scenario) {
  healing(scenario);
  scenario.rounds = 200;
  scenario.shipping.min_copies = 2;
  scenario.then = KvScenario::Then::none;
}

/// And the primary is only slow, and goes on.
void healing_until_suspected(KvScenario& scenario) {
  healing(scenario);
  scenario.then = KvScenario::Then::suspected_when_full;
  scenario.network.revoking_kills = false;
}

/// And the primary dies before the spare has all.
void healing_too_late(KvScenario& scenario) {
  healing(scenario);
  scenario.rounds = 30;
  scenario.keys = 4;
  scenario.most_value_bytes = 700;
  scenario.then = KvScenario::Then::dies_when_taught;
}

/// The primary dies, its standby, which serves, teaches a spare, and then dies as well.
void healing_after_a_move(KvScenario& scenario) {
  healing(scenario);
  scenario.standby_dies = false;
  scenario.server_dies = true;
}

/// The primary is only slow, and goes on.
void healing_after_a_suspicion(KvScenario& scenario) {
  healing_after_a_move(scenario);
  scenario.server_dies = false;
  scenario.is_suspected = true;
  scenario.network.revoking_kills = false;
}

/// And the standby reaches all clients but one, which reaches the primary.
void healing_apart(KvScenario& scenario) {
  healing_after_a_suspicion(scenario);
  scenario.rounds = 200;
  scenario.lease = kShortLease;
  scenario.is_apart = true;
}

/// The primary dies, and its standby serves alone until it has taught a spare.
void moving_before_writes(KvScenario& scenario) {
  healing_before_writes(scenario);
  scenario.standby_dies = false;
  scenario.server_dies = true;
}

std::uint64_t was_taught(KvRun& run) { return run.world().was_any_taught() ? 1 : 0; }
std::uint64_t was_refused_and_done_later(KvRun& run) { return run.was_written_again() ? 1 : 0; }

TEST(KvReplicasSim, AreMadeAgain) {
  for (const Shape shape : {healing, healing_until_suspected}) {
    EXPECT_GE(expect_kept_as(shape, kReplicaSeeds / 3, was_taught), 0.5);
  }
}
TEST(KvReplicasSim, AreMadeAgainByAStandbyThatWasPromoted) {
  for (const Shape shape : {healing_after_a_move, healing_after_a_suspicion, healing_apart}) {
    EXPECT_GE(expect_kept_as(shape, kReplicaSeeds / 3, was_taught), 0.5);
  }
}
TEST(KvReplicasSim, RefuseWritesUntilThereAreEnoughAgain) {
  for (const Shape shape : {healing_before_writes, moving_before_writes}) {
    EXPECT_GE(expect_kept_as(shape, kReplicaSeeds / 3, was_refused_and_done_later), 0.25);
  }
}
TEST(KvReplicasSim, AreNotServedBeforeTheyAreWhole) { expect_kept_as(healing_too_late, kReplicaSeeds / 10); }

TEST(KvReplicasSimRules, CatchAPrimaryThatIsStillCalledAlone) {
  EXPECT_TRUE(caught({.retracts_alone = false}, healing_until_suspected));
}
TEST(KvReplicasSimRules, CatchAStandbyThatServesBeforeItIsWhole) {
  EXPECT_TRUE(caught({.serves_when_full = false}, healing_too_late));
}

}  // namespace
}  // namespace farside::sim
