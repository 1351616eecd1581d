// Pages that move (src/gas/protocol), when a rank stops before any step of what it does, for a while, for longer than
// the lease, or for good: the others go on, and when it returns it harms no other rank.
#include <array>
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/sim/gas/gas_stage.h"
#include "tests/sim/seeds.h"

namespace farside::sim {
namespace {

// ---- At every step

enum class Doing : std::uint8_t { get, put, add, own };
enum class Stop : std::uint8_t { for_a_while, for_long, for_good };
enum class Meanwhile : std::uint8_t { others_use_the_page, others_own_it };

struct Scene {
  Doing doing;
  Stop stop;
  Meanwhile meanwhile;
  bool is_stale;  ///< the page has moved since the actor learned of its place
  gas::GasRules rules;
};

struct Played {
  bool stopped = false;  ///< not when it had finished before
  std::optional<std::string> violation{};
};

Played play(const Scene& scene, std::uint64_t seed, std::uint64_t last_step) {
  Stage stage(seed, harsh_but_prompt(), scene.rules);
  World& world = stage.world;
  bool stopped = false;
  bool acted = false;
  if (scene.is_stale) world.on(kHome, [&] { stage.expect(stage.own(kHome), kHome, "an own before"); });
  stage.finish("preparing");
  world.fabric(kActor).before_each([&, step = std::uint64_t{0}](const Operation*) mutable {
    if (++step != last_step) return;
    stopped = true;
    if (scene.stop == Stop::for_good) return world.kill(kActor);
    world.pause(kActor, scene.stop == Stop::for_long ? 4 * kLease : kLease / 2);
  });
  world.on(kActor, [&] {
    switch (scene.doing) {
      case Doing::get: stage.expect(stage.get(kActor), kActor, "the get that stopped"); break;
      case Doing::put: stage.expect(stage.put(kActor), kActor, "the put that stopped"); break;
      case Doing::add: stage.expect(stage.add(kActor), kActor, "the addition that stopped"); break;
      case Doing::own: stage.expect(stage.own(kActor), kActor, "the own that stopped"); break;
    }
    acted = true;
  });
  world.on(kOther, [&] {
    while (!stopped && !acted) world.fabric(kOther).sleep(std::chrono::microseconds(1));
    if (scene.meanwhile == Meanwhile::others_own_it) {
      stage.expect(stage.own(kOther), kOther, "an own meanwhile");
    } else {
      stage.expect(stage.put(kOther), kOther, "a put meanwhile");
      stage.expect(stage.add(kOther), kOther, "an addition meanwhile");
    }
    stage.expect(stage.get(kOther), kOther, "a get meanwhile");
  });
  stage.finish("at work");
  stage.use_by_all();
  // Only a rank that may be in the middle of a change, while another rank wants to own the page, is evicted.
  const bool changes = scene.doing == Doing::put || scene.doing == Doing::add;
  const bool is_waited_for = scene.stop == Stop::for_long && scene.meanwhile == Meanwhile::others_own_it && changes;
  if (!world.alive(kActor) && scene.stop != Stop::for_good && !is_waited_for) stage.fail("it was evicted");
  return {stopped, stage.violation()};
}

/// The first that goes wrong when `scene` stops before each of its steps.
std::optional<std::string> violation(const Scene& scene, std::uint64_t& most_steps) {
  constexpr std::uint64_t kSeeds = 4;
  return first_violation(kSeeds, [&](std::uint64_t seed) -> std::optional<std::string> {
    for (std::uint64_t step = 1;; ++step) {
      const Played played = play(scene, seed, step);
      if (played.violation) return *played.violation + "; stopped before step " + std::to_string(step);
      if (!played.stopped) return std::nullopt;
      most_steps = std::max(most_steps, step);
    }
  });
}

std::optional<std::string> violation(Doing doing, const gas::GasRules& rules = {}) {
  constexpr std::array kStops{"for a while", "for long", "for good"};
  std::uint64_t most_steps = 0;
  for (const Stop stop : {Stop::for_a_while, Stop::for_long, Stop::for_good}) {
    for (const Meanwhile meanwhile : {Meanwhile::others_use_the_page, Meanwhile::others_own_it}) {
      for (const bool is_stale : {false, true}) {
        if (const auto found = violation({doing, stop, meanwhile, is_stale, rules}, most_steps)) {
          return *found + ", " + kStops.at(static_cast<std::size_t>(stop)) +
                 (meanwhile == Meanwhile::others_own_it ? ", page owned" : ", page used") +
                 (is_stale ? ", having moved before" : "");
        }
      }
    }
  }
  testing::Test::RecordProperty("steps", std::to_string(most_steps));
  return std::nullopt;
}

TEST(GasStops, AGetThatStopsAnywhereHarmsNoOtherRank) { EXPECT_EQ(violation(Doing::get), std::nullopt); }
TEST(GasStops, APutThatStopsAnywhereHarmsNoOtherRank) { EXPECT_EQ(violation(Doing::put), std::nullopt); }
TEST(GasStops, AnAdditionThatStopsAnywhereHarmsNoOtherRank) { EXPECT_EQ(violation(Doing::add), std::nullopt); }
TEST(GasStops, AMoveThatStopsAnywhereHarmsNoOtherRank) { EXPECT_EQ(violation(Doing::own), std::nullopt); }

TEST(GasStopsRules, CatchesWhoPassesAHoldWithoutEvicting) {
  EXPECT_TRUE(noticed(violation(Doing::put, {.evicts_before_passing = false})));
}
TEST(GasStopsRules, CatchesPublishingByWrite) {
  EXPECT_TRUE(noticed(violation(Doing::own, {.publishes_by_compare_swap = false})));
}

// ---- A put that lands when its rank has died

constexpr std::uint64_t kSeeds = 100;

Network late(Duration most) {
  Network network = harsh_but_prompt();
  network.lands_late = true;
  network.slow_process = kActor;
  network.long_latency = most;
  network.needs_calls_for_progress = false;
  return network;
}

/// It dies when its WRITE is on its way.
void put_and_die(Stage& stage) {
  stage.world.fabric(kActor).before_each([&, wrote = false](const Operation* operation) mutable {
    if (wrote) return stage.world.kill(kActor);
    wrote = operation != nullptr && operation->kind == Operation::Kind::write;
  });
  stage.world.on(kActor, [&] { (void)stage.put(kActor); });
}

// It lands when the page has been copied, but not yet published: who found it there would miss it afterwards.
std::optional<std::string> violation_of_a_put_after_the_copy(const gas::GasRules& rules) {
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    Stage stage(seed, late(2 * kLease), rules);
    World& world = stage.world;
    put_and_die(stage);
    bool moved = false;
    world.fabric(kOther).before_each([&](const Operation* operation) {
      const bool publishes =
          operation != nullptr && operation->kind == Operation::Kind::compare_swap &&
          operation->region->peer() == kHome &&
          gas::Location::from_word(operation->operand) ==
              gas::Location::from_word(operation->expected).moved_to(kOther, operation->operand & 1U);
      if (publishes) world.pause(kOther, kLease / 2);
    });
    world.on(kOther, [&] {
      while (world.alive(kActor)) world.fabric(kOther).sleep(std::chrono::microseconds(1));
      stage.expect(stage.own(kOther), kOther, "the own");
      moved = true;
    });
    world.on(kHome, [&] {
      while (!moved) {
        (void)stage.get(kHome, 0, std::chrono::microseconds(200));
        world.fabric(kHome).sleep(std::chrono::microseconds(200));
      }
      stage.expect(stage.get(kHome), kHome, "a get");
    });
    stage.finish("moving a page");
    stage.use_by_all();
    return stage.violation();
  });
}
TEST(GasStops, APutThatLandsAfterTheCopyIsNotFound) { EXPECT_EQ(violation_of_a_put_after_the_copy({}), std::nullopt); }
TEST(GasStopsRules, CatchesGetsFromWhereADeadRanksPutsMayLand) {
  EXPECT_TRUE(noticed(violation_of_a_put_after_the_copy({.closes_when_passing = false})));
}

// It lands when the page has moved, and its old slot may have been filled with another.
std::optional<std::string> violation_of_a_put_into_a_reused_slot(const gas::GasRules& rules) {
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    Stage stage(seed, late(8 * kLease), rules);
    World& world = stage.world;
    put_and_die(stage);
    world.on(kOther, [&] {
      while (world.alive(kActor)) world.fabric(kOther).sleep(std::chrono::microseconds(1));
      stage.expect(stage.own(kOther), kOther, "the own");
      world.on(kOwner, [&] {
        for (const gas::PageId page : {2U, 3U}) stage.expect(stage.own(kOwner, page), kOwner, "an own", page);
      });
    });
    stage.finish("moving pages");
    for (const gas::PageId page : {0U, 2U, 3U}) stage.use_by_all(page);
    return stage.violation();
  });
}
TEST(GasStops, APutThatLandsInAReusedSlotIsNone) { EXPECT_EQ(violation_of_a_put_into_a_reused_slot({}), std::nullopt); }
TEST(GasStopsRules, CatchesASlotThatIsFreeBeforeADeadRankIsCutOff) {
  EXPECT_TRUE(noticed(violation_of_a_put_into_a_reused_slot({.distrusts_before_freeing = false})));
}

// ---- A put that its rank has given up

// The link to the owner is down for longer than the lease, and the put's deadline is shorter than both. Meanwhile
// another rank wants the page, and the owner uses its slots again.
std::optional<std::string> violation_of_a_put_given_up(const gas::GasRules& rules) {
  Network network = harsh_but_prompt();
  network.replaces_links = network.flushes_replace_links = false;  // what was given up lands when the link is back
  network.needs_calls_for_progress = false;
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    Stage stage(seed, network, rules);
    World& world = stage.world;
    world.wires().stall(world.fabric(kActor).process(), world.fabric(kOwner).process(), 4 * kLease);
    world.on(kActor, [&] {
      if (stage.put(kActor, 0, kLease / 2).done()) stage.fail("a put was done over a link that is down");
    });
    world.on(kOther, [&] {
      world.fabric(kOther).sleep(kLease / 4);
      stage.expect(stage.own(kOther), kOther, "the own");
      world.on(kOwner, [&] {
        for (const gas::PageId page : {2U, 3U}) stage.expect(stage.own(kOwner, page), kOwner, "an own", page);
      });
    });
    stage.finish("moving pages");
    for (const gas::PageId page : {0U, 2U, 3U}) stage.use_by_all(page);
    for (team::Rank rank = 0; rank < kRanks; ++rank) {
      if (!world.alive(rank)) stage.fail("rank " + std::to_string(rank) + " was evicted");
    }
    return stage.violation();
  });
}
TEST(GasStops, APutThatWasGivenUpEvictsNoRank) { EXPECT_EQ(violation_of_a_put_given_up({}), std::nullopt); }
TEST(GasStopsRules, CatchesWhoEvictsForAPutThatWasGivenUp) {
  EXPECT_TRUE(noticed(violation_of_a_put_given_up({.spares_ranks_that_gave_up = false})));
}
TEST(GasStopsRules, CatchesAHoldThatEndsBeforeItsPutCannotLand) {
  EXPECT_TRUE(noticed(violation_of_a_put_given_up({.awaits_what_was_given_up = false})));
}

}  // namespace
}  // namespace farside::sim
