// The judge of histories (linearizability.h) lets pass what can be told as a sequence, and nothing else.
#include "tests/sim/linearizability.h"

#include <gtest/gtest.h>

namespace farside::sim {
namespace {

using Kind = WordAction::Kind;
constexpr std::uint64_t kNever = WordAction::kNever;

bool is_right(std::initializer_list<WordAction> actions) {
  WordHistory history;
  for (const WordAction& action : actions) history.begin(action);
  return !history.violation();
}

WordAction get(std::uint64_t found, std::uint64_t begin, std::uint64_t end) {
  return {.kind = Kind::get, .found = found, .begin = begin, .end = end};
}
WordAction put(std::uint64_t value, std::uint64_t begin, std::uint64_t end, bool repeats = false) {
  return {.kind = Kind::put, .value = value, .begin = begin, .end = end, .repeats = repeats};
}
WordAction add(std::uint64_t found, std::uint64_t begin, std::uint64_t end) {
  return {.kind = Kind::add, .value = 1, .found = found, .begin = begin, .end = end};
}
WordAction swap(std::uint64_t expected, std::uint64_t value, std::uint64_t found, std::uint64_t begin,
                std::uint64_t end) {
  return {Kind::compare_swap, value, expected, found, begin, end};
}

TEST(Linearizability, AGetFindsTheLastPutThatReturned) {
  EXPECT_TRUE(is_right({put(1, 1, 2), put(2, 3, 4), get(2, 5, 6)}));
  EXPECT_FALSE(is_right({put(1, 1, 2), put(2, 3, 4), get(1, 5, 6)}));
  EXPECT_FALSE(is_right({put(1, 1, 2), get(0, 3, 4)}));
  EXPECT_FALSE(is_right({get(7, 1, 2)}));
}

TEST(Linearizability, AGetBesideAPutFindsEither) {
  EXPECT_TRUE(is_right({put(1, 1, 4), get(0, 2, 3)}));
  EXPECT_TRUE(is_right({put(1, 1, 4), get(1, 2, 3)}));
}

TEST(Linearizability, WhatWasSeenStays) {
  EXPECT_TRUE(is_right({put(1, 1, 10), get(0, 2, 3), get(1, 4, 5)}));
  EXPECT_FALSE(is_right({put(1, 1, 10), get(1, 2, 3), get(0, 4, 5)}));
  EXPECT_FALSE(is_right({put(1, 1, 10), put(2, 2, 11), get(1, 3, 4), get(2, 5, 6), get(1, 7, 8)}));
}

TEST(Linearizability, APutThatFailedTakesEffectOnceOrNever) {
  EXPECT_TRUE(is_right({put(1, 1, kNever), get(0, 2, 3)}));
  EXPECT_TRUE(is_right({put(1, 1, kNever), get(0, 2, 3), get(1, 4, 5)}));
  EXPECT_FALSE(is_right({put(1, 1, kNever), get(1, 2, 3), get(0, 4, 5)}));
  EXPECT_FALSE(is_right({put(1, 1, kNever), get(1, 2, 3), put(2, 4, 5), get(2, 6, 7), get(1, 8, 9)}));
}

// A word in a WRITE may be stored twice, but not when the put has returned.
TEST(Linearizability, APutThatRepeatsMayShowAgainUntilItReturns) {
  EXPECT_TRUE(is_right({put(1, 1, 10, true), put(2, 2, 11), get(1, 3, 4), get(2, 5, 6), get(1, 7, 8)}));
  // The first get of 1 after the put of 2 might come before that put, the second one only after the repeat.
  EXPECT_TRUE(is_right({put(1, 1, 6, true), get(1, 2, 3), put(2, 5, 10), get(1, 8, 20), get(1, 21, 22)}));
  EXPECT_FALSE(is_right({put(1, 1, 4, true), get(1, 2, 3), put(2, 5, 10), get(1, 8, 20), get(1, 21, 22)}));
  EXPECT_FALSE(is_right(
      {put(1, 1, 6, true), put(2, 2, 11), get(1, 3, 4), get(2, 5, 7), get(1, 8, 9), get(2, 12, 13), get(1, 14, 15)}));
}

TEST(Linearizability, EachAdditionFindsAnotherValue) {
  EXPECT_TRUE(is_right({add(1, 1, 4), add(0, 2, 3), get(2, 5, 6)}));
  EXPECT_FALSE(is_right({add(0, 1, 4), add(0, 2, 3)}));
  EXPECT_FALSE(is_right({add(0, 1, 2), add(1, 3, 4), get(1, 5, 6)}));
}

TEST(Linearizability, ACompareSwapStoresIfItFoundWhatItExpected) {
  EXPECT_TRUE(is_right({swap(0, 5, 0, 1, 2), swap(0, 6, 5, 3, 4), get(5, 5, 6)}));
  EXPECT_FALSE(is_right({swap(0, 5, 0, 1, 4), swap(0, 6, 0, 2, 3)}));
  EXPECT_TRUE(is_right({swap(0, 5, 0, 1, kNever), get(0, 2, 3), get(5, 4, 5)}));
}

}  // namespace
}  // namespace farside::sim
