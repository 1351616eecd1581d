// Pages that move (src/gas/protocol), when a rank stops before any step of what it does, for a while, for longer than
// the lease, or for good: the others go on, and when it returns it harms nobody.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/world.h"
#include "tests/sim/linearizability.h"
#include "tests/sim/page_user.h"
#include "tests/sim/seeds.h"

namespace farside::sim {
namespace {

constexpr Rank kRanks = 4;
constexpr Rank kHome = 0;   // of page 0
constexpr Rank kActor = 1;  // it stops
constexpr Rank kOther = 2;
constexpr Rank kOwner = 3;  // of page 0, in the beginning
constexpr PageId kPages = 4;
constexpr Duration kLease = std::chrono::milliseconds(5);

// Nothing is late, so nothing may fail but because of the one who stops.
Network harsh_but_prompt() {
  Network network;
  network.lands_late = false;
  network.answers_late = false;
  network.stalls_before_posting = false;
  network.revokes_slowly = false;
  network.detection = std::chrono::milliseconds(2);
  return network;
}

/// Four ranks that know where page 0 is, and what they get, put and add there. A page has a word that is put to, and
/// one that is added to.
class Stage {
 public:
  Stage(std::uint64_t seed, const Network& network, const GasRules& rules) : world(seed, kRanks, network) {
    const PageShape shape{.pages = kPages, .page_bytes = 16, .slots = 2, .cached_places = kPages};
    const auto first_owner = [](PageId page) { return std::array{kOwner, kActor, kOther, kHome}.at(page); };
    for (Rank rank = 0; rank < kRanks; ++rank) {
      world.on(rank, [=, this] {
        memories_[rank] =
            std::make_unique<PageMemory>(world.team(rank), "pages", PageSettings{shape, first_owner, kLease}, rules);
        users_[rank] = std::make_unique<PageUser>(*memories_[rank]);
        if (!get(rank, 0, kLimit).done()) fail("the first get did not end");
      });
    }
    finish("beginning");
  }

  // By a thread of `rank`.

  Ended get(Rank rank, PageId page = 0, Duration patience = kLongTimeout) {
    std::array<std::uint64_t, 2> words{};
    std::array<std::size_t, 2> numbers{};
    for (const std::size_t word : {0, 1}) numbers[word] = history(page, word).begin({.begin = ++moment_});
    const Ended ended = user(rank).accessor.get({page, 0, LocalSpan(words)}, user(rank).memory.fabric().in(patience));
    if (!ended.done()) return ended;
    ++moment_;
    for (const std::size_t word : {0, 1}) history(page, word).end(numbers[word], moment_, words[word]);
    return ended;
  }
  Ended put(Rank rank, PageId page = 0, Duration limit = kLongTimeout) {
    std::uint64_t value = ++values_;
    const auto number =
        history(page, 0).begin({.kind = WordAction::Kind::put, .value = value, .begin = ++moment_, .repeats = true});
    const Ended ended = user(rank).accessor.put({page, 0, LocalSpan(value)}, user(rank).memory.fabric().in(limit));
    if (ended.done()) history(page, 0).end(number, ++moment_);
    return ended;
  }
  Ended add(Rank rank, PageId page = 0) {
    const auto number = history(page, 1).begin({.kind = WordAction::Kind::add, .value = 1, .begin = ++moment_});
    const Old<std::uint64_t> old = user(rank).accessor.fetch_add(page, 8, 1, soon(rank));
    if (old.ended.done()) history(page, 1).end(number, ++moment_, old.value);
    return old.ended;
  }
  Ended own(Rank rank, PageId page = 0) { return user(rank).mover.own({&page, 1}, soon(rank)).ended; }
  /// What `rank` did with `page` is done, unless the page was at one who has died.
  void expect(const Ended& ended, Rank rank, const std::string& what, PageId page = 0) {
    if (ended.done() || (ended.outcome == Outcome::peer_lost && !world.alive(owner(rank, page)))) return;
    fail(what + " by rank " + std::to_string(rank) + ": " + std::string(to_string(ended.outcome)));
  }

  // By the test.

  void finish(const std::string& at) {
    if (!world.run(kLimit)) fail("somebody was still " + at + " when the time was over");
  }
  /// Whoever lives uses `page` and moves it, when all that is late has come.
  void use_by_all(PageId page = 0) {
    world.heal();
    for (Rank rank = 0; rank < kRanks; ++rank) {
      world.fabric(rank).before_each({});
      if (!world.alive(rank)) continue;
      world.on(rank, [=, this] {
        user(rank).memory.fabric().sleep(kLongTimeout);
        expect(get(rank, page), rank, "a get in the end", page);
        expect(put(rank, page), rank, "a put in the end", page);
        expect(add(rank, page), rank, "an addition in the end", page);
        expect(own(rank, page), rank, "an own in the end", page);
        expect(get(rank, page), rank, "a get after all", page);
      });
    }
    finish("using a page");
  }
  [[nodiscard]] std::optional<std::string> violation() {
    for (std::size_t i = 0; i < histories_.size() && !violation_; ++i) {
      if (const auto wrong = histories_[i].violation()) fail("word " + std::to_string(i) + ": " + *wrong);
    }
    return violation_;
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  World world;

 private:
  static constexpr Duration kLongTimeout = std::chrono::seconds(1);
  static constexpr Duration kLimit = std::chrono::seconds(60);

  [[nodiscard]] Rank owner(Rank as_seen_by, PageId page) {
    Location place;
    if (!user(as_seen_by).accessor.directory().look({&page, 1}, {&place, 1}, soon(as_seen_by)).done()) {
      fail("no answer from a home");
    }
    return place.owner;
  }
  [[nodiscard]] PageUser& user(Rank rank) { return *users_[rank]; }
  [[nodiscard]] Deadline soon(Rank rank) { return user(rank).memory.fabric().in(kLongTimeout); }
  [[nodiscard]] WordHistory& history(PageId page, std::size_t word) { return histories_[2 * page + word]; }

  std::array<std::unique_ptr<PageMemory>, kRanks> memories_;
  std::array<std::unique_ptr<PageUser>, kRanks> users_;
  std::array<WordHistory, 2 * kPages> histories_;
  std::uint64_t moment_ = 0;
  std::uint64_t values_ = 0;
  std::optional<std::string> violation_;
};

// ---- At every step

enum class Doing : std::uint8_t { get, put, add, own };
enum class Stop : std::uint8_t { for_a_while, for_long, for_good };
enum class Meanwhile : std::uint8_t { others_use_the_page, others_own_it };

struct Scene {
  Doing doing;
  Stop stop;
  Meanwhile meanwhile;
  bool is_stale;  ///< the page has moved since the actor learned of its place
  GasRules rules;
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
  // Who may be in the middle of a change, while somebody wants to own the page, is the only one to be evicted.
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

std::optional<std::string> violation(Doing doing, const GasRules& rules = {}) {
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

TEST(GasStops, AGetThatStopsAnywhereHarmsNobody) { EXPECT_EQ(violation(Doing::get), std::nullopt); }
TEST(GasStops, APutThatStopsAnywhereHarmsNobody) { EXPECT_EQ(violation(Doing::put), std::nullopt); }
TEST(GasStops, AnAdditionThatStopsAnywhereHarmsNobody) { EXPECT_EQ(violation(Doing::add), std::nullopt); }
TEST(GasStops, AMoveThatStopsAnywhereHarmsNobody) { EXPECT_EQ(violation(Doing::own), std::nullopt); }

TEST(GasStops, CatchesWhoPassesAHoldWithoutEvicting) {
  EXPECT_TRUE(noticed(violation(Doing::put, {.evicts_before_passing = false})));
}
TEST(GasStops, CatchesPublishingByWrite) {
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
std::optional<std::string> violation_of_a_put_after_the_copy(const GasRules& rules) {
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    Stage stage(seed, late(2 * kLease), rules);
    World& world = stage.world;
    put_and_die(stage);
    bool moved = false;
    world.fabric(kOther).before_each([&](const Operation* operation) {
      const bool publishes = operation != nullptr && operation->kind == Operation::Kind::compare_swap &&
                             operation->region->peer() == kHome &&
                             Location::from_word(operation->operand) ==
                                 Location::from_word(operation->expected).moved_to(kOther, operation->operand & 1U);
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
TEST(GasStops, CatchesGetsFromWhereADeadRanksPutsMayLand) {
  EXPECT_TRUE(noticed(violation_of_a_put_after_the_copy({.closes_when_passing = false})));
}

// It lands when the page has moved, and its old slot may have been filled with another.
std::optional<std::string> violation_of_a_put_into_a_reused_slot(const GasRules& rules) {
  return first_violation(kSeeds, [&](std::uint64_t seed) {
    Stage stage(seed, late(8 * kLease), rules);
    World& world = stage.world;
    put_and_die(stage);
    world.on(kOther, [&] {
      while (world.alive(kActor)) world.fabric(kOther).sleep(std::chrono::microseconds(1));
      stage.expect(stage.own(kOther), kOther, "the own");
      world.on(kOwner, [&] {
        for (const PageId page : {2U, 3U}) stage.expect(stage.own(kOwner, page), kOwner, "an own", page);
      });
    });
    stage.finish("moving pages");
    for (const PageId page : {0U, 2U, 3U}) stage.use_by_all(page);
    return stage.violation();
  });
}
TEST(GasStops, APutThatLandsInAReusedSlotIsNone) { EXPECT_EQ(violation_of_a_put_into_a_reused_slot({}), std::nullopt); }
TEST(GasStops, CatchesASlotThatIsFreeBeforeADeadRankIsCutOff) {
  EXPECT_TRUE(noticed(violation_of_a_put_into_a_reused_slot({.distrusts_before_freeing = false})));
}

// ---- A put that its rank has given up

// The link to the owner is down for longer than the lease, and the put's deadline is shorter than both. Meanwhile
// another rank wants the page, and the owner uses its slots again.
std::optional<std::string> violation_of_a_put_given_up(const GasRules& rules) {
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
        for (const PageId page : {2U, 3U}) stage.expect(stage.own(kOwner, page), kOwner, "an own", page);
      });
    });
    stage.finish("moving pages");
    for (const PageId page : {0U, 2U, 3U}) stage.use_by_all(page);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      if (!world.alive(rank)) stage.fail("rank " + std::to_string(rank) + " was evicted");
    }
    return stage.violation();
  });
}
TEST(GasStops, APutThatWasGivenUpEvictsNoRank) { EXPECT_EQ(violation_of_a_put_given_up({}), std::nullopt); }
TEST(GasStops, CatchesWhoEvictsForAPutThatWasGivenUp) {
  EXPECT_TRUE(noticed(violation_of_a_put_given_up({.spares_who_gave_up = false})));
}
TEST(GasStops, CatchesAHoldThatEndsBeforeItsPutCannotLand) {
  EXPECT_TRUE(noticed(violation_of_a_put_given_up({.awaits_what_was_given_up = false})));
}

}  // namespace
}  // namespace farside::sim
