// What docs/protocols/far.md promises, under many seeds; and that each of its rules, broken, is noticed.
#include <gtest/gtest.h>

#include "farside/base/mix.h"

#include "tests/sim/far/far_run.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

constexpr std::uint64_t kSeeds = 1000;

FarScenario draw(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  FarScenario scenario;
  scenario.copies = static_cast<std::uint32_t>(1 + dice.random() % 2);
  scenario.nodes = static_cast<team::Rank>(2 + dice.random() % 2);
  scenario.clients = static_cast<team::Rank>(1 + dice.random() % 2);
  scenario.threads = 1 + dice.random() % 2;
  scenario.slabs = static_cast<far::SlabNumber>(dice.one_in(2) ? 16 : 3 + dice.random() % 4);
  scenario.network = draw_network(dice);
  scenario.network.revoking_kills = dice.one_in(2);
  scenario.block_bytes = dice.one_in(2) ? 16 : 32;
  if (dice.one_in(2)) {
    scenario.pauses = static_cast<int>(dice.random() % 8);
    scenario.stalls = static_cast<int>(dice.random() % 4);
    scenario.deaths = static_cast<team::Rank>(dice.random() % 2);
    scenario.impatient = dice.one_in(2);
    scenario.mistaken = dice.one_in(4);
  }
  if (dice.one_in(2)) {
    scenario.node_dies = true;
    scenario.rounds = 60;  // so that there is work while slabs are rebuilt
    scenario.network.detection = std::chrono::microseconds(200);
    scenario.another_dies = scenario.copies == 2 && scenario.nodes == 3 && scenario.slabs == 16 && !scenario.mistaken;
  }
  return scenario;
}

// Slabs are rebuilt while they are written to, and then their other copy is lost.
FarScenario draw_rebuilding(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  FarScenario scenario;
  scenario.copies = 2;
  scenario.nodes = 3;
  scenario.clients = 1;
  scenario.threads = 2;
  scenario.slabs = 16;
  scenario.space_slabs = 8;
  scenario.rounds = static_cast<int>(10 + dice.random() % 50);
  scenario.block_bytes = dice.one_in(2) ? 16 : 32;
  scenario.network = draw_network(dice);
  scenario.network.detection = std::chrono::microseconds(100);
  scenario.node_dies = scenario.another_dies = true;
  return scenario;
}

// Clients die, or are taken for dead, and half of what one of them posts lands much later.
FarScenario draw_leaving(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  FarScenario scenario;
  scenario.clients = 2;
  scenario.slabs = 4;
  scenario.deaths = static_cast<team::Rank>(dice.random() % 2);
  scenario.mistaken = scenario.deaths == 0;
  scenario.network = draw_network(dice);
  scenario.network.revoking_kills = dice.one_in(2);
  scenario.network.lands_late = true;
  scenario.network.long_latency = std::chrono::milliseconds(4);
  scenario.network.detection = std::chrono::microseconds(100);
  scenario.network.slow_process = scenario.nodes + (scenario.mistaken ? 0 : scenario.clients - 1);
  return scenario;
}

FarScenario draw_any(std::uint64_t seed) {
  switch (seed % 3) {
    case 0: return draw(seed);
    case 1: return draw_rebuilding(seed);
    default: return draw_leaving(seed);
  }
}

// One client gives up early again and again, and half of what it posts lands much later.
FarScenario draw_hurried(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  FarScenario scenario;
  scenario.clients = 1;
  scenario.rounds = 60;
  scenario.block_bytes = dice.one_in(2) ? 16 : 32;
  scenario.impatient = true;
  scenario.network = draw_network(dice);
  scenario.network.lands_late = true;
  scenario.network.needs_calls_for_progress = false;
  scenario.network.slow_process = scenario.nodes;
  return scenario;
}

// The same, of threads that write, and discard, parts of the same blocks.
FarScenario draw_side_by_side(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  FarScenario scenario = draw_hurried(seed);
  scenario.threads = 2 + dice.random() % 2;
  scenario.space_slabs = 1;
  scenario.block_bytes = 32;
  scenario.node_dies = dice.one_in(2);
  scenario.network.detection = std::chrono::microseconds(100);
  return scenario;
}

// Nodes do not answer for a while, one after the other or at the same time, and then continue.
FarScenario draw_hanging(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  FarScenario scenario;
  scenario.copies = 2;
  scenario.nodes = static_cast<team::Rank>(2 + dice.random() % 2);
  scenario.clients = static_cast<team::Rank>(1 + dice.random() % 2);
  scenario.threads = 1 + dice.random() % 2;
  scenario.slabs = 16;
  scenario.space_slabs = 2 + dice.random() % 5;
  scenario.rounds = 60;
  scenario.hangs = static_cast<int>(1 + dice.random() % 3);
  scenario.another_dies = scenario.nodes == 3;
  scenario.network = draw_network(dice);
  scenario.network.replaces_links = true;  // as UCX does: otherwise looks that are not answered form a queue
  scenario.network.revoking_kills = false;
  return scenario;
}

std::optional<std::string> violation(const far::FarRules& rules, FarScenario (*draws)(std::uint64_t)) {
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    FarScenario scenario = draws(seed);
    scenario.rules = rules;
    return FarRun(seed, scenario).run();
  });
}

bool caught(const far::FarRules& rules, FarScenario (*draws)(std::uint64_t) = draw_any) {
  return noticed(violation(rules, draws));
}

auto counted_as(FarScenario (*draws)(std::uint64_t)) {
  return [draws](std::uint64_t seed, FaultCount& count) { return run_counted(FarRun(seed, draws(seed)), count); };
}

TEST(FarSim, KeepsItsPromisesUnderEverySeed) {
  expect_kept(
      kSeeds, counted_as(draw_any),
      UnmetList{{"READ memory",
                 {Fault::poster_died, Fault::landed_orphaned, Fault::answer_lost},
                 "few die while they READ or are READ",
                 kRare},
                {"signal", {Fault::link_replaced, Fault::target_died}, "a flush reports that first", kMayBeZero},
                {"wait", {Fault::target_died}, "it waits for any process, and names none"},
                {"WRITE memory", {Fault::landed_orphaned}, "few die while they WRITE", kRare},
                {"READ memory", {Fault::access_taken}, "few are taken for dead then", kRare},
                {"atomic far holds", every_fault(), "it only wakes sleepers, of its own process", kRare},
                {"atomic far holds",
                 {Fault::timed_out, Fault::landed_given_up, Fault::link_replaced, Fault::answer_lost},
                 "a process answers itself long before it gives up",
                 kMayBeZero},
                {"atomic far holds", {Fault::access_taken, Fault::link_cut}, "a process reaches itself"},
                {"atomic table", {Fault::link_cut}, "few links are cut then", kRare}});
}

TEST(FarSim, KeepsThemWhenAClientGivesUpAgainAndAgain) { expect_kept(kSeeds / 10, counted_as(draw_hurried)); }

TEST(FarSim, KeepsThemWhereThreadsWriteTheSameBlocks) { expect_kept(kSeeds, counted_as(draw_side_by_side)); }

TEST(FarSim, KeepsThemWhenNodesHangAndContinue) { expect_kept(kSeeds / 4, counted_as(draw_hanging)); }

TEST(FarSimRules, CatchesSlabsThatAreFreeBeforeAccessWasRevoked) {
  EXPECT_TRUE(caught({.revokes_before_reclaiming = false}));
}
TEST(FarSimRules, CatchesSlabsThatAreNotZeroed) { EXPECT_TRUE(caught({.zeroes = false})); }

TEST(FarSimRules, CatchesASlabGivenBackWithAnUnfinishedWrite) {
  EXPECT_TRUE(caught({.keeps_unfinished = false}, draw_hurried));
}
TEST(FarSimRules, CatchesAWriteThatComesAfterTheNextOne) {
  EXPECT_TRUE(caught({.settles_first = false}, draw_hurried));
}
TEST(FarSimRules, CatchesAWriteThatIsDoneAfterOneMirror) { EXPECT_TRUE(caught({.writes_all_copies = false})); }
TEST(FarSimRules, CatchesAWriteThatIsNotFlushed) { EXPECT_TRUE(caught({.flushes_writes = false})); }
TEST(FarSimRules, CatchesALostLinkTakenForTheEndOfAWrite) { EXPECT_TRUE(caught({.flushes_lost_links = false})); }
TEST(FarSimRules, CatchesARebuildWithoutTheHold) { EXPECT_TRUE(caught({.rebuilds_alone = false})); }
TEST(FarSimRules, CatchesTheLastCopyGivenUp) { EXPECT_TRUE(caught({.keeps_last_copies = false}, draw_hanging)); }
TEST(FarSimRules, CatchesAWriteThatLeavesOutANodeThatMayAnswerAgain) {
  EXPECT_TRUE(caught({.writes_unresponsive = false}, draw_hanging));
}
TEST(FarSimRules, CatchesALossThatReadsAsZeros) { EXPECT_TRUE(caught({.remembers_losses = false})); }
TEST(FarSimRules, CatchesPartOfABlockOfZerosWrittenAlone) { EXPECT_TRUE(caught({.fills_blocks = false})); }
TEST(FarSimRules, CatchesABlockFilledBesideAWriter) { EXPECT_TRUE(caught({.fills_alone = false}, draw_side_by_side)); }
TEST(FarSimRules, CatchesASlabGivenBackUnderAReader) { EXPECT_TRUE(caught({.gives_back_alone = false})); }

}  // namespace
}  // namespace farside::sim
