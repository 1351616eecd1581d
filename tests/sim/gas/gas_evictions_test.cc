// Pages that move (src/gas/protocol), when a rank that was evicted lives on, as over a network: the others continue
// without it, also where no launcher tells them of the eviction.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/sim/faults_met.h"
#include "tests/sim/gas/gas_run.h"
#include "tests/sim/gas/gas_stage.h"

namespace farside::sim {
namespace {

constexpr std::uint64_t kSeeds = 100;

// The actor stops between setting its hold and its WRITE, for longer than the lease, and another rank that wants the
// page evicts it. The page's old owner then uses the slot again, which the actor could still write to.
std::optional<std::string> violation(bool is_announced, Duration owners_deadline, const gas::GasRules& rules = {}) {
  Network network = harsh_but_prompt();
  network.revoking_kills = false;
  network.announces_evictions = is_announced;
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    Stage stage(seed, network, rules);
    World& world = stage.world;
    bool stopped = false;
    world.fabric(kActor).before_each([&](const Operation* operation) {
      if (operation == nullptr || operation->kind != Operation::Kind::write || stopped) return;
      stopped = true;
      world.pause(kActor, 8 * kLease);
    });
    world.on(kActor, [&] { (void)stage.put(kActor); });
    world.on(kOther, [&] {
      while (!stopped) world.fabric(kOther).sleep(std::chrono::microseconds(1));
      stage.expect(stage.own(kOther), kOther, "the own");
      world.on(kOwner, [&] {
        for (const gas::PageId page : {2U, 3U}) {
          comm::Status moved;
          const Time start = world.fabric(kOwner).now();
          do moved = stage.own(kOwner, page, owners_deadline);
          while (moved.outcome == Outcome::timed_out && world.fabric(kOwner).now() - start < 10 * kLease);
          stage.expect(moved, kOwner, "an own by the old owner", page);
        }
      });
    });
    stage.finish("moving pages");
    if (!world.evicted(kActor)) stage.fail("the actor was not evicted");
    if (!world.alive(kActor)) stage.fail("the actor did not live on");
    for (const gas::PageId page : {0U, 2U, 3U}) stage.use_by_all(page);
    return stage.violation();
  });
}

TEST(GasEvictions, AnOldOwnerThatWasToldUsesItsSlotsAgain) {
  EXPECT_EQ(violation(true, std::chrono::seconds(1)), std::nullopt);
}
TEST(GasEvictions, AnOldOwnerThatWasNotToldUsesItsSlotsAgain) {
  EXPECT_EQ(violation(false, std::chrono::seconds(1)), std::nullopt);
}
TEST(GasEvictions, AnOldOwnerThatWasNotToldUsesItsSlotsAgainThoughItsDeadlinesAreShorterThanTheLease) {
  EXPECT_EQ(violation(false, kLease / 4), std::nullopt);
}
TEST(GasEvictionsRules, CatchesAnOldOwnerThatWaitsToBeTold) {
  EXPECT_TRUE(noticed(violation(false, std::chrono::seconds(1), {.evicts_passed_ranks = false})));
}

// The evicted rank owns page 0, whose home and sharers live on and know where the page is. From the eviction on, no
// operation of a rank that knows of it is served by the memory of the evicted one.
std::optional<std::string> violation_at_an_evicted_owner(bool is_announced) {
  Network network = harsh_but_prompt();
  network.revoking_kills = false;
  network.announces_evictions = is_announced;
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    Stage stage(seed, network, {});
    World& world = stage.world;
    world.on(kActor, [&] {
      stage.expect(stage.own(kActor), kActor, "the own");
      stage.expect(stage.put(kActor), kActor, "a put");
    });
    stage.finish("moving a page");
    for (const team::Rank rank : {kHome, kOther}) {
      world.on(rank, [&, rank] { stage.expect(stage.get(rank), rank, "a get"); });
    }
    stage.finish("learning where a page is");
    const auto expect_lost = [&](team::Rank rank) {
      for (const comm::Status& status : {stage.get(rank), stage.put(rank), stage.add(rank), stage.own(rank)}) {
        if (status.outcome != Outcome::peer_lost || status.lost != kActor) stage.fail("the page is not lost");
      }
    };
    world.on(kOther, [&] {
      (void)world.team(kOther).evict(kActor, world.fabric(kOther).in(kLease));
      expect_lost(kOther);
      if (!is_announced) return;
      world.on(kHome, [&] {
        world.fabric(kHome).sleep(2 * network.detection);
        expect_lost(kHome);
      });
    });
    stage.finish("using a page that is lost");
    if (!world.evicted(kActor) || !world.alive(kActor)) stage.fail("the actor was not evicted, or does not live on");
    return stage.violation();
  });
}

TEST(GasEvictions, WhatAnEvictedRankOwnsIsLost) { EXPECT_EQ(violation_at_an_evicted_owner(true), std::nullopt); }
TEST(GasEvictions, WhatAnEvictedRankOwnsIsLostToTheEvictorAlsoWhereNoRankIsTold) {
  EXPECT_EQ(violation_at_an_evicted_owner(false), std::nullopt);
}

// The actor is well when it is evicted, and finds that it has lost the evictor before it has lost the others. It takes
// a page that the evictor knows the place of and puts to. Then the page's old owner uses its slots again.
std::optional<std::string> violation_by_a_rank_that_is_cut_off(const gas::GasRules& rules) {
  Network network = harsh_but_prompt();
  network.revoking_kills = false;
  network.announces_evictions = true;
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    Stage stage(seed, network, rules);
    World& world = stage.world;
    world.on(kActor, [&] {
      while (!world.fabric(kActor).lost(kOther)) world.fabric(kActor).sleep(std::chrono::microseconds(1));
      (void)stage.own(kActor, 0, kLease);
    });
    const auto again_and_again = [&](team::Rank rank, const auto& use) {
      for (int i = 0; i < 40; ++i) {
        use();
        world.fabric(rank).sleep(network.detection / 20);
      }
    };
    world.on(kHome, [&] { again_and_again(kHome, [&] { stage.expect(stage.get(kHome), kHome, "a get"); }); });
    world.on(kOther, [&] {
      (void)world.team(kOther).evict(kActor, world.fabric(kOther).in(kLease));
      again_and_again(kOther, [&] { stage.expect(stage.put(kOther), kOther, "a put"); });
      world.on(kOwner, [&] {
        for (const gas::PageId page : {2U, 3U}) stage.expect(stage.own(kOwner, page), kOwner, "an own", page);
      });
    });
    stage.finish("evicting a rank");
    for (const team::Rank rank : {kHome, kOther, kOwner}) {
      if (world.evicted(rank)) stage.fail("rank " + std::to_string(rank) + " was evicted");
    }
    for (const gas::PageId page : {0U, 2U, 3U}) stage.use_by_all(page);
    return stage.violation();
  });
}

TEST(GasEvictions, ARankThatWasCutOffPassesNoOther) {
  EXPECT_EQ(violation_by_a_rank_that_is_cut_off({}), std::nullopt);
}
TEST(GasEvictionsRules, CatchesWhoPassesARankThatHasCutItOff) {
  EXPECT_TRUE(noticed(violation_by_a_rank_that_is_cut_off({.passes_only_if_out = false})));
}

// Stops and deaths at random.
GasScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 6151);
  GasScenario scenario;
  scenario.ranks = 3 + static_cast<team::Rank>(dice.random() % 2);
  scenario.threads = 1 + dice.random() % 2;
  scenario.shape.pages = 1 + dice.random() % 4;
  scenario.shape.slots = scenario.shape.pages + 1;
  scenario.shape.cached_places = scenario.shape.pages;
  scenario.network = draw_network(dice);
  scenario.network.revoking_kills = false;
  scenario.network.announces_evictions = dice.one_in(2);
  scenario.pauses = 1 + static_cast<int>(dice.random() % 4);
  scenario.stalls = static_cast<int>(dice.random() % 3);
  scenario.deaths = dice.one_in(3) ? 1 : 0;
  scenario.impatient = dice.one_in(2);
  return scenario;
}
TEST(GasEvictionsSim, NoSeedHasThemBreakAPromise) {
  expect_kept(200, [](std::uint64_t seed, FaultCount& count) {
    const GasScenario scenario = draw(seed);
    name_places(count, scenario);
    return run_counted(GasRun(seed, scenario), count);
  });
}

}  // namespace
}  // namespace farside::sim
