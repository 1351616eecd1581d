// Conditional writes: what a key must be for them, and what may not come between.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/server/store_fixture.h"

namespace farside::kv::test {
namespace {

TEST_F(StoreTest, ComparesBeforeItSets) {
  EXPECT_EQ(put_if("a", "1", 10, at(5)), Answer::differs);
  EXPECT_EQ(put_if("a", "1", 11, {}), Answer::done);
  EXPECT_EQ(store().put(at(12), {.key = "a", .value = "2", .expected = Timestamp{}}).newest, at(11));
  EXPECT_EQ(put_if("a", "2", 13, at(11)), Answer::done);
  EXPECT_EQ(put_if("a", "2", 13, at(11)), Answer::done) << "asked twice";
  EXPECT_EQ(value("a"), "2");
}

TEST_F(StoreTest, WhatIsErasedIsAbsentAndIsItsLastVersion) {
  erase("a", 10);
  EXPECT_EQ(put_if("a", "1", 11, {}), Answer::done);
  erase("a", 12);
  EXPECT_EQ(put_if("a", "2", 13, at(12)), Answer::done);
  erase("a", 14);
  EXPECT_EQ(put_if("a", "3", 15, at(13)), Answer::differs);
}

// Timestamps may be far from wall time: a clock that was wrong once has moved them.
TEST(StoreWithExpiry, ComparesItWithWallTime) {
  StoreUnderTest under_test({.bytes = 1U << 20U, .wall = {.ahead = std::chrono::hours(1)}});
  const std::uint64_t now_ns = 3601'000'000'000;  // of the test's clock, with what it is ahead
  const auto put = [&](std::string_view value, std::uint64_t time, std::uint64_t expires_ns,
                       std::optional<Timestamp> expected) {
    return under_test.store().put(under_test.at(time), {"a", value, expires_ns, false, expected}).answer;
  };
  EXPECT_EQ(put("1", 10, now_ns + 1, {}), Answer::done);
  EXPECT_EQ(put("2", now_ns + 10, 0, Timestamp{}), Answer::differs) << "it is there for another moment";
  under_test.clock_pass(std::chrono::nanoseconds(1));
  EXPECT_EQ(put("2", 11, now_ns, Timestamp{}), Answer::done);
  EXPECT_EQ(put("3", 12, 0, under_test.at(11)), Answer::done) << "who read it before it expired";
}

// Another transaction that may come between is as good as one that has: a client may have seen it, since a part of it
// is committed elsewhere.
TEST_F(StoreTest, ItDiffersWhileAnotherVersionIsPrepared) {
  put("a", "1", 10);
  prepare(20, {"a"}, "2");
  EXPECT_EQ(put_if("a", "3", 30, at(10)), Answer::differs);
  EXPECT_EQ(put_if("a", "3", 15, at(10)), Answer::differs);
  store().abort(at(20));
  EXPECT_EQ(put_if("a", "3", 40, at(10)), Answer::done);
  prepare(50, {"new"}, "2");
  EXPECT_EQ(put_if("new", "3", 60, {}), Answer::differs);
  commit(50);
  EXPECT_EQ(put_if("new", "3", 70, at(50)), Answer::done);
}

TEST_F(StoreTest, WhatIsPreparedBelowTheNewestIsNotInTheWay) {
  prepare(10, {"a"}, "1");
  put("a", "2", 20);
  EXPECT_EQ(put_if("a", "3", 30, at(20)), Answer::done);
}

// Otherwise a conditional version would replace one that its writer has not seen.
TEST_F(StoreTest, NothingIsPreparedBelowAConditionalVersion) {
  put("a", "1", 10);
  ASSERT_EQ(prepare_if("a", 30, at(10)), Answer::done);
  EXPECT_EQ(store().put(at(20), {"a", "2"}).answer, Answer::behind);
  EXPECT_EQ(store().put(at(21), {"a", "2"}).newest, at(30));
  EXPECT_EQ(prepare(40, {"a"}, "4"), Answer::done) << "it comes after";
  EXPECT_EQ(prepare(25, {"a"}, "2"), Answer::behind);
  store().abort(at(30));
  EXPECT_EQ(prepare(26, {"a"}, "2"), Answer::done);
}

TEST_F(StoreTest, OfSeveralWritesAllAreAsExpectedOrNoneIsPrepared) {
  put("a", "1", 10);
  put("b", "1", 11);
  const std::array writes{Write{.key = "a", .value = "2", .expected = at(10)},
                          Write{.key = "b", .value = "2", .expected = at(10)}, Write{.key = "c", .value = "2"}};
  EXPECT_EQ(store().prepare({at(20), {}, {}, writes}).answer, Answer::differs);
  EXPECT_FALSE(store().at("a", at(20)) || store().at("b", at(20)) || store().at("c", at(20)));
  EXPECT_EQ(store().fate_or_bar(at(20)), Fate::aborted);
}

TEST_F(StoreTest, WhatDiffersIsNotTriedHigher) {
  put("a", "1", 10);
  put("b", "1", 30);
  const std::array writes{Write{.key = "a", .value = "2", .expected = at(9)}, Write{.key = "b", .value = "2"}};
  EXPECT_EQ(store().prepare({at(20), {}, {}, writes}).answer, Answer::differs);
}

}  // namespace
}  // namespace farside::kv::test
