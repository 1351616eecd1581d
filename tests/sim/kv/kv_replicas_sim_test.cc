// Partitions with a standby each (src/kv/replication/standby.h), whose primaries die, or are only slow and taken for
// dead: no put that has returned is lost, and when the standby serves no client reads what the primary still has,
// although the primary may be out of reach.
#include <gtest/gtest.h>

#include "tests/sim/kv/kv_replicas_run.h"

namespace farside::sim {
namespace {

void any(KvScenario& /*scenario*/) {}

/// And its primary's connection to its standby breaks again and again before.
void moving_after_breaks(KvScenario& scenario) {
  moving(scenario);
  scenario.breaks = 8;
}

/// And its primary goes on.
void slow(KvScenario& scenario) {
  moving(scenario);
  scenario.server_dies = false;
  scenario.is_suspected = true;
  scenario.network.revoking_kills = false;
}

/// And its connection to the standby breaks and is made anew when that closes the ring, sooner or later.
void relinking(KvScenario& scenario) {
  slow(scenario);
  scenario.rounds = 120;
  scenario.clients = 3;
  scenario.longest_relink = std::chrono::microseconds(100);
  scenario.breaks_when_suspected = true;
}

/// And a primary of whose WRITEs the words are often late, though the WRITE has completed: also of the first one over
/// the new connection.
void relinking_with_late_words(KvScenario& scenario) {
  relinking(scenario);
  scenario.rounds = 40;
  scenario.pauses = scenario.stalls = 0;
  scenario.network.slow_process = 0;
  scenario.network.lands_late = scenario.network.completes_before_visible = true;
}

/// And one client, which reads, hears late that the standby serves.
void slow_to_hear(KvScenario& scenario) {
  slow(scenario);
  scenario.rounds = 200;
  scenario.lease.reset();
  scenario.is_apart = true;
  scenario.network.completes_before_visible = true;
}

/// And it does not hear so in time, but is cut off: the primary is dead, but its memory still answers.
void slow_to_hear_and_cut_off(KvScenario& scenario) {
  slow_to_hear(scenario);
  scenario.pauses = scenario.stalls = 0;
  scenario.network.revoking_kills = scenario.network.dead_memory_answers = true;
  scenario.network.detection = std::chrono::milliseconds(10);
  scenario.telling = {.answer = std::chrono::milliseconds(2), .between_attempts = std::chrono::microseconds(200)};
}

/// And the standby reaches all clients but one, which reaches the primary.
void apart(KvScenario& scenario) {
  slow(scenario);
  scenario.rounds = 200;
  scenario.lease = kShortLease;
  scenario.is_apart = true;
}

/// And leases last for much longer than the standby needs to take over.
void apart_with_long_leases(KvScenario& scenario) {
  apart(scenario);
  scenario.rounds = 100;
  scenario.lease = 8 * kShortLease;
}

/// And READs are often late, so that much may happen until what came is looked at.
void apart_and_late(KvScenario& scenario) {
  apart(scenario);
  scenario.stalls = 12;
  scenario.pauses = 3;
}

/// One partition of little memory, with erasures, in which nothing stops.
void full(KvScenario& scenario) {
  moving(scenario);
  scenario.server_dies = false;
  scenario.rounds = 20;
  scenario.keys = 6;
  scenario.one_in_erases = 3;
  scenario.fill();
  scenario.first_slice = scenario.timeout;  // asked again, a put that is done may be answered with unknown
}

TEST(KvReplicasSim, KeepTheirPromisesUnderEverySeed) {
  const std::vector<Fault> ends{Fault::poster_stopped, Fault::poster_died, Fault::landed_orphaned};
  const double cut_off = expect_kept_as(
      any, kReplicaSeeds, clients_cut_off,
      UnmetList{
          writes_complete_early(),
          fences_find_all_over(),
          {"signal", {Fault::target_died}, "a flush reports that first", kMayBeZero},
          {"READ kv epochs", {Fault::answer_lost}, "a standby, or a primary that is asked, dies just then", kMayBeZero},
          {"READ kv rings of standbys", {Fault::answer_lost}, "few standbys die then", kRare},
          {"WRITE kv epochs", {Fault::link_broke, Fault::answered_late}, "a standby tells each client once", kRare},
          {"READ kv memory", {Fault::answer_lost}, "few servers die then", kRare},
          {"atomic kv mailboxes of servers", {Fault::answer_lost}, "few servers die while a bell is rung", kRare},
          {"READ kv memory",
           {Fault::access_taken},
           "a client that is cut off was not told that the standby serves",
           kMayBeZero},
          {"READ kv epochs: epoch", {Fault::access_taken}, "where there are leases no client is cut off"},
          {"READ kv epochs: alone", {Fault::access_taken}, "few clients are cut off", kRare},
          {"WRITE kv epochs", {Fault::access_taken}, "a client is cut off while its word is on its way", kMayBeZero},
          {"WRITE kv mailboxes",
           {Fault::access_taken},
           "a primary that is cut off writes to its ring first",
           kMayBeZero},
          {"atomic kv mailboxes", {Fault::access_taken}, "only a primary is cut off, which rings no bell", kRare},
          {"READ kv epochs: alone", every_fault(), "few servers stop or die while it is asked", kRare},
          {"READ kv epochs: epoch", ends, "few clients stop or die while they ask for a lease", kRare},
          {"READ kv epochs: epoch", {Fault::target_stopped}, "few standbys stop then", kRare},
          {"WRITE kv epochs", ends, "a standby tells each client once", kRare},
          {"WRITE kv epochs",
           {Fault::poster_died, Fault::landed_orphaned},
           "the standby dies as well, while it tells of the primary's death",
           kMayBeZero},
          {"WRITE kv epochs", {Fault::stalled, Fault::late, Fault::target_stopped}, "it tells each once", kRare},
          {"WRITE kv mailboxes of servers", every_fault(), "a server asks another one only about transactions in doubt",
           kRare},
          {"READ kv rings of standbys", ends, "few primaries stop or die then", kRare},
          {"WRITE kv rings of standbys", ends, "few primaries stop or die then", kRare}});
  EXPECT_GE(cut_off, 0.004);
}
// 7015: the standby told a session that it serves just between two looks, of which the second found nothing to wait
// for.
TEST(KvReplicasSim, PassWhatFailedOnce) {
  for (const std::uint64_t seed : {7015U}) EXPECT_EQ(KvRun(seed, drawn_as(any, seed)).run(), std::nullopt) << seed;
}
TEST(KvReplicasSim, MoveWhenAPrimaryDies) { expect_kept_as(moving, kReplicaSeeds / 3); }
TEST(KvReplicasSim, MoveFromAPrimaryThatIsOnlySlow) {
  expect_kept_as(slow, kReplicaSeeds / 3);
  expect_kept_as(slow_to_hear, kReplicaSeeds / 3);
}
TEST(KvReplicasSim, MoveAlsoFromAClientThatIsCutOff) {
  EXPECT_GE(expect_kept_as(slow_to_hear_and_cut_off, kReplicaSeeds / 3), 0.5);
}
TEST(KvReplicasSim, KeepShippingWhenConnectionsBreak) { expect_kept_as(moving_after_breaks, kReplicaSeeds / 3); }
TEST(KvReplicasSim, MoveWhileTheConnectionIsMadeAnew) { expect_kept_as(relinking, kReplicaSeeds / 3); }
TEST(KvReplicasSim, MoveAlsoForAClientThatTheStandbyDoesNotReach) {
  expect_kept_as(apart, kReplicaSeeds / 3);
  expect_kept_as(apart_and_late, kReplicaSeeds / 3);
}
TEST(KvReplicasSim, HaveRoomForWhatTheirPrimariesHaveRoomFor) { expect_kept_as(full, kReplicaSeeds / 15); }

TEST(KvReplicasSimRules, CatchAnAnswerBeforeTheChangeWasShipped) {
  EXPECT_TRUE(caught({.answers_after_shipping = false}, moving));
}
TEST(KvReplicasSimRules, CatchAPrimaryThatGoesOnBehindAHole) {
  EXPECT_TRUE(caught({.writes_again = false}, moving_after_breaks));
}
TEST(KvReplicasSimRules, CatchAnAnswerBeforeTheNewConnectionWasFlushed) {
  EXPECT_TRUE(caught({.flushes_the_new_way = false}, relinking_with_late_words));
}
TEST(KvReplicasSim, CatchARingThatAnotherConnectionOpensAgain) {
  EXPECT_TRUE(caught({}, [](KvScenario& scenario) {
    relinking(scenario);
    scenario.network.revoking_lasts = false;
  }));
}
TEST(KvReplicasSimRules, CatchARingThatIsNotClosed) { EXPECT_TRUE(caught({.closes_the_ring = false}, slow)); }
TEST(KvReplicasSimRules, CatchARingThatIsNotDrained) { EXPECT_TRUE(caught({.drains_the_ring = false}, slow)); }
TEST(KvReplicasSimRules, CatchAStandbyThatServesBeforeAllKnow) {
  EXPECT_TRUE(caught({.serves_after_the_epoch = false}, slow_to_hear));
}
TEST(KvReplicasSimRules, CatchAStandbyThatCutsNoClientOff) {
  EXPECT_TRUE(caught({.cuts_off_what_it_cannot_tell = false}, slow_to_hear_and_cut_off));
}
TEST(KvReplicasSimRules, CatchWhoDoesNotLookAtTheEpoch) { EXPECT_TRUE(caught({.looks_at_the_epoch = false}, slow)); }
TEST(KvReplicasSimRules, CatchWhoDoesNotLookAtTheLease) { EXPECT_TRUE(caught({.looks_at_the_lease = false}, apart)); }
TEST(KvReplicasSimRules, CatchAStandbyThatDoesNotOutwaitLeases) {
  EXPECT_TRUE(caught({.outwaits_leases = false}, apart_with_long_leases));
}

}  // namespace
}  // namespace farside::sim
