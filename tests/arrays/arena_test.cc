// When memory may be used again. Barriers are played by the test: they end when it says so.
#include "arrays/arena.h"

#include <map>

#include <gtest/gtest.h>

#include "farside/base/mix.h"

namespace farside::test {
namespace {

using arrays::Arena;
using arrays::Block;
using arrays::MemoryUse;

constexpr std::uint64_t kSegment = 1U << 16U;
constexpr std::uint64_t kHeld = 1U << 18U;

/// Counts what the arena does with its barriers. One has ended when `ended` is as large as its number, or was waited
/// for.
struct Stage {
  explicit Stage(bool strict = false)
      : arena({.held_bytes = kHeld, .segment_bytes = kSegment, .strict = strict},
              {.grow = [this](std::uint64_t bytes) { segments.push_back(bytes); },
               .begin_barrier = [this] { return ++begun; },
               .has_ended = [this](std::uint64_t number) { return number <= ended; },
               .wait = [this](std::uint64_t number) { ended = std::max(ended, number); }}) {}

  std::vector<std::uint64_t> segments;
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
  Arena arena;
};

// Blocks in use do not overlap. What was given back is not taken again before a barrier ended that began later.
TEST(Arena, GivesNothingThatMayStillBeWrittenTo) {
  Stage stage;
  std::vector<Block::Place> in_use;
  struct GivenBack {
    Block::Place place;
    std::uint64_t begun;  // barriers that cannot tell anything about it
  };
  std::vector<GivenBack> given_back;
  const auto overlap = [](const Block::Place& a, const Block::Place& b) {
    return a.segment == b.segment && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  };
  std::uint64_t random = 1;
  for (int step = 0; step < 3000; ++step) {
    random = mix(random + kMixStep);
    if (in_use.size() < 10 || random % 2 == 0) {
      const Block::Place place = stage.arena.take(random / 2 % 9000);
      ASSERT_LE(place.offset + place.bytes, stage.segments.at(place.segment));
      for (const auto& other : in_use) ASSERT_FALSE(overlap(place, other));
      for (const auto& other : given_back) ASSERT_TRUE(!overlap(place, other.place) || stage.ended > other.begun);
      in_use.push_back(place);
    } else {
      std::swap(in_use[random / 2 % in_use.size()], in_use.back());
      stage.arena.give_back(in_use.back());
      given_back.push_back({in_use.back(), stage.begun});
      in_use.pop_back();
    }
    if (random % 5 == 0) stage.ended = stage.begun;
  }
  EXPECT_GT(stage.begun, 100u);
}

// A loop that drops as much as it takes goes on for ever in the same memory, and waits for no barrier that ends in
// time.
TEST(Arena, RunsForEverInBoundedMemory) {
  for (const std::uint64_t bytes : {100U, 5000U, 100'000U}) {
    Stage stage;
    for (int round = 0; round < 1000; ++round) {
      stage.arena.give_back(stage.arena.take(bytes));
      if (stage.begun > 0) stage.ended = stage.begun - 1;  // one behind
    }
    const MemoryUse use = stage.arena.use();
    EXPECT_EQ(use.in_use, 0u);
    EXPECT_LE(use.held_back, kHeld + bytes);
    EXPECT_LE(use.reserved, 2 * kHeld + kSegment + bytes) << bytes;
    EXPECT_TRUE(use.waits == 0 || bytes == 100'000) << bytes;
  }
}

// No more than the limit is held back, though no barrier ends by itself: then it is waited for, and that is reported.
TEST(Arena, WaitsWhenTooMuchIsHeldBack) {
  Stage stage;
  for (int round = 0; round < 50; ++round) {
    stage.arena.give_back(stage.arena.take(kHeld / 2));
    ASSERT_LE(stage.arena.use().held_back, kHeld + kHeld / 2);
  }
  EXPECT_GT(stage.arena.use().waits, 10u);
}

// Without the relaxation nothing is held back beyond the next operation.
TEST(Arena, WaitsAtOnceWhenStrict) {
  Stage stage(true);
  const Block::Place first = stage.arena.take(1000);
  stage.arena.give_back(first);
  EXPECT_EQ(stage.arena.take(1000).offset, first.offset);
  EXPECT_EQ(stage.begun, 1u);
  EXPECT_EQ(stage.ended, 1u);
}

// Which places are taken does not depend on when barriers end: two ranks whose barriers end at other times agree.
TEST(Arena, TakesTheSamePlacesWheneverBarriersEnd) {
  Stage early;
  Stage late;
  std::vector<Block::Place> in_use;
  std::uint64_t random = 7;
  for (int step = 0; step < 2000; ++step) {
    random = mix(random + kMixStep);
    early.ended = early.begun;
    if (in_use.size() < 5 || random % 2 == 0) {
      const Block::Place place = early.arena.take(random / 2 % 30'000);
      const Block::Place other = late.arena.take(random / 2 % 30'000);
      ASSERT_EQ(place.segment, other.segment);
      ASSERT_EQ(place.offset, other.offset);
      in_use.push_back(place);
    } else {
      early.arena.give_back(in_use.back());
      late.arena.give_back(in_use.back());
      in_use.pop_back();
    }
  }
  EXPECT_EQ(early.begun, late.begun);
  EXPECT_EQ(early.arena.use().waits, 0u);
  EXPECT_GT(late.arena.use().waits, 0u);
}

}  // namespace
}  // namespace farside::test
