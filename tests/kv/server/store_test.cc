// A server's keys and versions: what its calls answer, and what stands in its memory when they return.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kv/server/transactions.h"
#include "tests/kv/server/store_fixture.h"

namespace farside::kv::test {
namespace {

using Fate = Fate;

TEST_F(StoreTest, WhatWasPutIsTheNewest) {
  EXPECT_EQ(put("a", "1", 10), Answer::done);
  EXPECT_EQ(value("a"), "1");
  EXPECT_EQ(put("a", "2", 20), Answer::done);
  EXPECT_EQ(value("a"), "2");
  EXPECT_EQ(value("b"), std::nullopt);
}

// The first round of a reader must not see it, and the second must find it.
TEST_F(StoreTest, WhatIsPreparedIsFoundOnlyByItsTimestamp) {
  put("a", "1", 10);
  EXPECT_EQ(prepare(20, {"a"}, "2"), Answer::done);
  EXPECT_EQ(value("a"), "1");
  ASSERT_TRUE(store().at("a", at(20)));
  EXPECT_EQ(value(*store().at("a", at(20)), "a"), "2");
  EXPECT_EQ(commit(20), Answer::done);
  EXPECT_EQ(value("a"), "2");
  ASSERT_TRUE(store().at("a", at(10))) << "superseded just now";
}

TEST_F(StoreTest, AnAbortedTransactionLeavesNothing) {
  put("a", "1", 10);
  const MemoryUse before = store().use();
  prepare(20, {"a", "b"}, "2");
  store().abort(at(20));
  EXPECT_EQ(value("a"), "1");
  EXPECT_FALSE(store().at("a", at(20)));
  EXPECT_EQ(store().use().keys, before.keys);
  EXPECT_EQ(store().use().versions, before.versions);
  EXPECT_EQ(store().use().bytes_used, before.bytes_used);
}

TEST_F(StoreTest, PrepareBelowACommittedVersionIsBehind) {
  put("a", "1", 10);
  put("b", "1", 30);
  const Answered answered = store().prepare(part(20, {"a", "b"}, "2"));
  EXPECT_EQ(answered.answer, Answer::behind);
  EXPECT_EQ(answered.newest, at(30));
  EXPECT_FALSE(store().at("a", at(20)));
}

// Its client aborts at the others, so no server may find later that all had prepared it.
TEST_F(StoreTest, WhatIsRefusedIsBarred) {
  put("a", "1", 30);
  ASSERT_EQ(prepare(20, {"a"}, "2"), Answer::behind);
  EXPECT_EQ(prepare(20, {"b"}, "2"), Answer::barred);
  EXPECT_EQ(store().fate_or_bar(at(20)), Fate::aborted);
}

TEST_F(StoreTest, ACommitOfWhatIsOlderThanTheNewestChangesNothing) {
  prepare(20, {"a"}, "older");
  put("a", "newer", 30);
  EXPECT_EQ(commit(20), Answer::done);
  EXPECT_EQ(value("a"), "newer");
  EXPECT_TRUE(store().at("a", at(20))) << "for the grace time";
}

TEST_F(StoreTest, CommitMayBeRepeated) {
  prepare(20, {"a"}, "1");
  EXPECT_EQ(commit(20), Answer::done);
  EXPECT_EQ(commit(20), Answer::done);
  EXPECT_EQ(commit(21), Answer::unknown);
}

TEST_F(StoreTest, PrepareMayBeRepeated) {
  prepare(20, {"a"}, "1");
  EXPECT_EQ(prepare(20, {"a"}, "1"), Answer::done);
  EXPECT_EQ(commit(20), Answer::done);
  EXPECT_EQ(prepare(20, {"a"}, "1"), Answer::done);
  EXPECT_EQ(store().use().versions, 1);
  EXPECT_EQ(value("a"), "1");
}

TEST_F(StoreTest, OfTwoWritesOfOneKeyTheLaterCounts) {
  const std::array writes{Write{"a", "first"}, Write{"b", "other"}, Write{"a", "second"}};
  ASSERT_EQ(store().prepare({at(10), {}, {}, writes}).answer, Answer::done);
  commit(10);
  EXPECT_EQ(value("a"), "second");
  EXPECT_EQ(value("b"), "other");
}

// A server that was told no may act on it.
TEST_F(StoreTest, WhoseFateWasAskedForIsNotPreparedAnyMore) {
  EXPECT_EQ(store().fate_or_bar(at(20)), Fate::aborted);
  EXPECT_EQ(prepare(20, {"a"}, "1"), Answer::barred);
  prepare(30, {"a"}, "1");
  EXPECT_EQ(store().fate_or_bar(at(30)), Fate::prepared);
  commit(30);
  EXPECT_EQ(store().fate_or_bar(at(30)), Fate::committed);
}

TEST_F(StoreTest, AbortBarsWhatComesLate) {
  store().abort(at(20));
  EXPECT_EQ(prepare(20, {"a"}, "1"), Answer::barred);
  EXPECT_EQ(commit(20), Answer::barred);
}

TEST_F(StoreTest, AbortDoesNotUndoACommit) {
  put("a", "1", 10);
  store().abort(at(10));
  EXPECT_EQ(value("a"), "1");
  EXPECT_EQ(store().fate_or_bar(at(10)), Fate::committed);
}

TEST_F(StoreTest, WhatIsSettledIsNotPreparedAnyMore) {
  put("a", "1", 10);
  store().settle(at(20));
  EXPECT_EQ(prepare(15, {"b"}, "1"), Answer::barred);
  EXPECT_EQ(prepare(21, {"b"}, "1"), Answer::done);
  EXPECT_EQ(store().prepare(part(15, {"c"}, "1", 8)).answer, Answer::done) << "another session's";
}

TEST_F(StoreTest, DoubtfulIsWhatHasBeenPreparedForLong) {
  const std::array<ServerNumber, 2> servers{3, 5};
  const std::array writes{Write{"a", "1"}};
  const Time before = now();
  ASSERT_EQ(store().prepare({at(10), {}, servers, writes}).answer, Answer::done);
  EXPECT_TRUE(store().undecided(before).empty());
  const auto doubtful = store().undecided(now() + std::chrono::seconds(1));
  ASSERT_EQ(doubtful.size(), 1);
  EXPECT_EQ(doubtful.front().timestamp, at(10));
  EXPECT_EQ(doubtful.front().servers, (std::vector<ServerNumber>{3, 5}));
  commit(10);
  EXPECT_TRUE(store().undecided(now() + std::chrono::seconds(1)).empty());
}

TEST_F(StoreTest, CountsTheKeysThatAreThere) {
  const auto keys = [this] { return store().use().keys; };
  prepare(10, {"a", "b"}, "1");
  EXPECT_EQ(keys(), 0);
  commit(10);
  EXPECT_EQ(keys(), 2);
  put("a", "2", 20);
  EXPECT_EQ(keys(), 2);
  erase("a", 30);
  EXPECT_EQ(keys(), 1) << "though it is not reclaimed";
  prepare(40, {"a", "c"}, "3");
  store().abort(at(40));
  EXPECT_EQ(keys(), 1);
  put("a", "4", 50);
  EXPECT_EQ(keys(), 2);
  erase("b", 60);
  store().settle(at(60));
  pass(2 * kGrace);
  EXPECT_EQ(keys(), 1);
}

TEST_F(StoreTest, AmongCandidatesTheHighestIsFoundAndOtherwiseTheNewest) {
  put("a", "1", 10);
  put("a", "2", 20);
  prepare(30, {"a"}, "3");
  const auto among = [this](const std::vector<Timestamp>& candidates) {
    return store().among("a", candidates)->timestamp;
  };
  EXPECT_EQ(among({at(10), at(30)}), at(30));
  EXPECT_EQ(among({at(10)}), at(10));
  EXPECT_EQ(among({at(11)}), at(20));
  EXPECT_EQ(among({}), at(20));
}

// More writers between prepare and commit, and more commits within the grace time, than a cell has slots.
TEST_F(StoreTest, VersionsWithoutASlotAreFoundAsWell) {
  put("a", "10", 10);
  for (std::uint64_t time = 20; time < 30; ++time) ASSERT_EQ(prepare(time, {"a"}, std::to_string(time)), Answer::done);
  for (std::uint64_t time = 20; time < 30; ++time) {
    ASSERT_TRUE(store().at("a", at(time)));
    EXPECT_EQ(value(*store().at("a", at(time)), "a"), std::to_string(time));
  }
  for (const std::uint64_t time : {25, 21, 28, 29, 20}) {
    ASSERT_EQ(commit(time), Answer::done);
    EXPECT_EQ(read_cell("a").newest, value("a"));
  }
  EXPECT_EQ(value("a"), "29");
  for (const std::uint64_t time : {22, 23, 24, 26, 27}) store().abort(at(time));
  for (const std::uint64_t time : {10, 20, 21, 25, 28, 29}) EXPECT_TRUE(store().at("a", at(time))) << time;
}

// Marks.

TEST_F(StoreTest, OnlyTheNewestCommittedVersionWithNothingNewerPreparedHasNoMark) {
  put("a", "1", 10);
  EXPECT_FALSE(is_marked("a", 10));
  prepare(20, {"a"}, "2");
  prepare(30, {"a"}, "3");
  EXPECT_TRUE(is_marked("a", 10));
  EXPECT_TRUE(is_marked("a", 20));
  commit(20);
  EXPECT_TRUE(is_marked("a", 20)) << "30 is prepared";
  commit(30);
  EXPECT_TRUE(is_marked("a", 10));
  EXPECT_TRUE(is_marked("a", 20));
  EXPECT_FALSE(is_marked("a", 30));
}

// As published, the newest version stayed marked for ever.
TEST_F(StoreTest, AnAbortTakesTheMarkAway) {
  put("a", "1", 10);
  prepare(20, {"a"}, "2");
  EXPECT_TRUE(is_marked("a", 10));
  store().abort(at(20));
  EXPECT_FALSE(is_marked("a", 10));
}

TEST_F(StoreTest, ATransactionThatLostTakesItsMarkAway) {
  prepare(20, {"a"}, "2");
  put("a", "3", 30);
  commit(20);
  EXPECT_FALSE(is_marked("a", 30));
  EXPECT_TRUE(is_marked("a", 20));
}

TEST_F(StoreTest, VersionsSaySettledWhenTheirSessionDid) {
  put("a", "1", 10);
  prepare(20, {"a", "b"}, "2");
  commit(20);
  put("b", "3", 30);
  EXPECT_FALSE(is_settled("a", 20));
  store().settle(at(20));
  EXPECT_TRUE(is_settled("a", 10));
  EXPECT_TRUE(is_settled("a", 20));
  EXPECT_TRUE(is_settled("b", 20));
  EXPECT_FALSE(is_settled("b", 30));
  EXPECT_FALSE(is_marked("a", 20)) << "the other bit stays as it was";
}

TEST_F(StoreTest, SettledIsSaidInTheCellsCopyAsWell) {
  prepare(10, {"a"}, "1");
  commit(10);
  EXPECT_EQ(read_cell("a").copy_mark, 0);
  store().note_everywhere(at(10));
  EXPECT_EQ(read_cell("a").copy_mark, RecordHead::kEverywhere);
  store().settle(at(10));
  EXPECT_EQ(read_cell("a").copy_mark, RecordHead::kEverywhere | RecordHead::kSettled);
}

// Its session may have written others before that are not settled, so it does not say so.
TEST_F(StoreTest, WhatHasPartInOneServerIsEverywhereAtOnce) {
  put("a", "1", 10);
  EXPECT_TRUE(is_everywhere("a", 10));
  EXPECT_FALSE(is_settled("a", 10));
  prepare(20, {"a", "b"}, "2");
  commit(20);
  EXPECT_FALSE(is_everywhere("a", 20));
}

TEST_F(StoreTest, UnsettledIsWhatHasBeenCommittedForLong) {
  prepare(10, {"a"}, "1");
  commit(10);
  put("b", "1", 11);
  const Time later = now() + std::chrono::seconds(1);
  EXPECT_TRUE(store().unsettled(now()).empty());
  for (int i = 0; i < 2; ++i) {
    const auto unsettled = store().unsettled(later);
    ASSERT_EQ(unsettled.size(), 1);
    EXPECT_EQ(unsettled.front().timestamp, at(10));
    EXPECT_EQ(unsettled.front().servers, (std::vector<ServerNumber>{0, 1}));
  }
  store().note_everywhere(at(10));
  EXPECT_TRUE(is_everywhere("a", 10));
  EXPECT_TRUE(store().unsettled(later).empty());
  EXPECT_EQ(store().fate_or_bar(at(10)), Fate::committed) << "others may still ask";
}

// Sessions come and go. Where no server needs to ask about one, nothing is kept but how high its timestamps were.
TEST_F(StoreTest, ManySessionsAreForgottenAndComeBackHigher) {
  prepare(1, {"kept"}, "1");
  commit(1);
  for (std::uint64_t session = 100; session < 5000; ++session) {
    ASSERT_EQ(store().put(at(10 + session, session), {"a", "1"}).answer, Answer::done);
  }
  EXPECT_EQ(store().fate_or_bar(at(1)), Fate::committed) << "it is not settled";
  EXPECT_EQ(store().fate_or_bar(at(110, 100)), Fate::aborted) << "it was forgotten";
  const Answered late = store().prepare(part(110, {"b"}, "1", 100));
  EXPECT_EQ(late.answer, Answer::barred);
  EXPECT_GT(late.newest, at(1000));
  EXPECT_EQ(store().prepare(part(late.newest.time + 1, {"b"}, "1", 100)).answer, Answer::done);
}

// A session settles nothing while a server that it has asked is silent, and goes on with the others.
TEST_F(StoreTest, KeepsAFewEndedTransactionsOfEachSession) {
  prepare(2, {"kept"}, "1");
  commit(2);
  prepare(3, {"prepared"}, "1");
  for (std::uint64_t time = 10; time < 5010; ++time) ASSERT_EQ(store().put(at(time), {"a", "1"}).answer, Answer::done);
  std::size_t ended = 0;
  for (const EndedTransactions& each : store().ended()) ended += each.since.size();
  EXPECT_LE(ended, Transactions::kMaxEnded + 1);
  EXPECT_EQ(store().fate_or_bar(at(2)), Fate::committed) << "another server may ask";
  EXPECT_EQ(store().fate_or_bar(at(3)), Fate::prepared);
  EXPECT_EQ(store().put(at(5009), {"a", "1"}).answer, Answer::done) << "it may be repeated";
  EXPECT_EQ(store().put(at(11), {"a", "1"}).answer, Answer::barred) << "it is forgotten, and not done again";
  EXPECT_EQ(store().put(at(4), {"b", "1"}).answer, Answer::barred);
}

// It may have been told no by a server that has forgotten it since, and another have acted on that.
TEST_F(StoreTest, WhoWasForgottenIsBarredAsBefore) {
  EXPECT_EQ(store().fate_or_bar(at(150, 100)), Fate::aborted);
  for (std::uint64_t session = 101; session < 5000; ++session) {
    ASSERT_EQ(store().put(at(10 + session, session), {"a", "1"}).answer, Answer::done);
  }
  store().settle(at(120, 100));  // which makes it known again
  EXPECT_EQ(store().prepare(part(150, {"b"}, "1", 100)).answer, Answer::barred);
}

// What a rule's breaking does.

TEST(StoreRules, WithoutMarkingAllVersionsOneStaysUnmarked) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.marks_all_versions = false});
  broken.put("a", "1", 10);
  broken.prepare(20, {"a"}, "2");
  broken.prepare(30, {"a"}, "3");
  broken.commit(20);
  broken.commit(30);
  EXPECT_FALSE(broken.is_marked("a", 20));
}

TEST(StoreRules, WithoutOrderWhatCommitsLastWins) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.orders_by_timestamp = false});
  broken.prepare(20, {"a"}, "older");
  broken.put("a", "newer", 30);
  broken.commit(20);
  EXPECT_EQ(broken.value("a"), "older");
}

TEST(StoreRules, WithoutRefusalWhatIsBehindIsPrepared) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.refuses_what_is_behind = false});
  broken.put("a", "1", 30);
  EXPECT_EQ(broken.prepare(20, {"a"}, "2"), Answer::done);
}

TEST(StoreRules, WithoutLookingAtThePreparedOneComesBetween) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.conditions_heed_the_prepared = false});
  broken.put("a", "1", 10);
  broken.prepare(20, {"a"}, "2");
  EXPECT_EQ(broken.put_if("a", "3", 30, broken.at(10)), Answer::done);
}

TEST(StoreRules, WithoutKeepingConditionsOneComesLate) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.keeps_conditions = false});
  ASSERT_EQ(broken.prepare_if("a", 30, {}), Answer::done);
  EXPECT_EQ(broken.prepare(20, {"a"}, "2"), Answer::done);
}

TEST(StoreRules, WithoutBarringWhoWasGivenUpPrepares) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.bars_before_saying_no = false});
  EXPECT_EQ(broken.store().fate_or_bar(broken.at(20)), Fate::aborted);
  EXPECT_EQ(broken.prepare(20, {"a"}, "1"), Answer::done);
}

TEST(StoreRules, WithoutKeepingTheSupersededItIsGone) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.keeps_superseded = false});
  broken.put("a", "1", 10);
  broken.put("a", "2", 20);
  EXPECT_FALSE(broken.store().at("a", broken.at(10)));
  EXPECT_EQ(broken.value("a"), "2");
}

TEST(StoreRules, WithRecordsThatChangeThePreparedIsReadAsTheNewest) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.records_are_immutable = false});
  broken.put("a", "1", 10);
  broken.prepare(20, {"a"}, "2");
  EXPECT_EQ(broken.value("a"), "2");
  broken.store().abort(broken.at(20));
  EXPECT_EQ(broken.value("a"), "2");
}

}  // namespace
}  // namespace farside::kv::test
