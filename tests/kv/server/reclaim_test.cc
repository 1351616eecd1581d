// What becomes of superseded and erased versions, and of a server's memory when it is full.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/server/store_fixture.h"

namespace farside::kv::test {
namespace {

using KvReclaim = StoreTest;

constexpr Duration kMoment = std::chrono::milliseconds(1);

TEST_F(KvReclaim, SupersededVersionsStayForTheGraceTimeAndThenGo) {
  put("a", "1", 10);
  pass(10 * kGrace);
  EXPECT_TRUE(store().at("a", at(10))) << "it is the newest";
  put("a", "2", 20);
  pass(kGrace - kMoment);
  EXPECT_TRUE(store().at("a", at(10)));
  pass(kMoment);
  EXPECT_FALSE(store().at("a", at(10)));
  EXPECT_EQ(store().use().versions, 1);
  EXPECT_EQ(read_cell("a").newest, "2");
}

// So that what is written all the time is written where it was before. The others stay for as long as they are few.
TEST_F(KvReclaim, OfMoreThanAFewSupersededVersionsTheOldestGoSooner) {
  StoreUnderTest few({.bytes = 1U << 20U, .grace = kGrace, .superseded_bytes = 100});
  few.put("a", "1", 10);
  few.put("a", "2", 20);
  few.put("a", "3", 30);
  few.pass(kGrace / 20 - std::chrono::nanoseconds(1));
  EXPECT_TRUE(few.store().at("a", at(10)));
  few.pass(std::chrono::nanoseconds(1));
  EXPECT_FALSE(few.store().at("a", at(10)));
  EXPECT_TRUE(few.store().at("a", at(20))) << "it is the only one";
  few.erase("a", 40);
  few.store().settle(at(40));
  few.pass(kGrace - kMoment);
  EXPECT_TRUE(few.read_cell("a").found) << "who looks for a key that is gone counts on its grace time";
}

// A call must not take long because much is due.
TEST_F(KvReclaim, FreesNoMoreThanItIsToldTo) {
  for (std::uint64_t time = 10; time < 20; ++time) put("a", "1", time);
  clock_pass(kGrace);
  EXPECT_EQ(store().reclaim(5), 5);
  EXPECT_EQ(store().reclaim(5), 4);
  EXPECT_EQ(store().reclaim(5), 0);
}

// Who writes as fast as the server can leaves it no time for anything else.
TEST_F(KvReclaim, ACommitGivesBackMoreThanItSupersedes) {
  for (std::uint64_t time = 10; time < 20; ++time) put("a", "1", time);
  clock_pass(kGrace);
  put("b", "1", 20);
  EXPECT_EQ(store().use().versions, 9) << "of a the newest, and of nine others two less; of b one";
  prepare(30, {"c", "d", "e"}, "1");
  commit(30);
  EXPECT_EQ(store().use().versions, 6) << "three more keys, and six less of a";
}

// A session that reads that exact version, since a sibling named it, wants it for the grace time after the others exist
// as well.
TEST_F(KvReclaim, AVersionThatCommittedLateStaysForTheGraceTime) {
  prepare(10, {"a"}, "1");
  put("a", "2", 20);
  pass(2 * kGrace);
  commit(10);
  pass(kGrace - kMoment);
  EXPECT_TRUE(store().at("a", at(10)));
  pass(kMoment);
  EXPECT_FALSE(store().at("a", at(10)));
}

TEST_F(KvReclaim, AnErasedAndSettledKeyGoesAfterTheGraceTime) {
  put("a", "1", 10);
  erase("a", 20);
  EXPECT_EQ(value("a"), std::nullopt);
  EXPECT_TRUE(read_cell("a").found);
  store().settle(at(20));
  pass(kGrace - kMoment);
  EXPECT_TRUE(read_cell("a").found);
  pass(kMoment);
  EXPECT_FALSE(read_cell("a").found);
  EXPECT_EQ(store().forgotten(), at(20));
  EXPECT_EQ(store().use().keys, 0);
  EXPECT_EQ(store().use().bytes_used, 0);
}

// It has no siblings.
TEST_F(KvReclaim, AKeyThatWasErasedAloneNeedsNotBeSettled) {
  erase_alone("a", 20);
  pass(kGrace);
  EXPECT_FALSE(read_cell("a").found);
}

TEST_F(KvReclaim, AnErasedKeyGoesWhenItsEraserIsKnownToBeCommittedEverywhere) {
  erase("a", 20);
  pass(10 * kGrace);
  store().note_everywhere(at(20));
  pass(kGrace - kMoment);
  EXPECT_TRUE(read_cell("a").found);
  pass(kMoment);
  EXPECT_FALSE(read_cell("a").found);
}

// By wall time, and by and by.
TEST_F(KvReclaim, AnExpiredKeyGoesAfterTheGraceTime) {
  const auto expires_ns = static_cast<std::uint64_t>((now() + kGrace).nanoseconds);
  const auto use = store().use();
  const auto pass_slowly = [this](Duration duration) {
    for (Duration passed{}; passed < duration; passed += kMoment) pass(kMoment);
  };
  ASSERT_EQ(store().put(at(10), {"a", "1", expires_ns}).answer, Answer::done);
  ASSERT_EQ(store().put(at(20), {"b", "1", expires_ns + 10 * kGrace.count()}).answer, Answer::done);
  pass_slowly(kGrace - kMoment);
  EXPECT_EQ(store().scan(0, "", 1 << 20U).keys, (std::vector<std::string>{"a", "b"}));
  pass_slowly(kGrace);
  EXPECT_TRUE(read_cell("a").found) << "the grace time begins when it expires";
  EXPECT_EQ(store().scan(0, "", 1 << 20U).keys, std::vector<std::string>{"b"});
  EXPECT_EQ(store().use().keys, 1);
  pass_slowly(kGrace);
  EXPECT_FALSE(read_cell("a").found);
  EXPECT_TRUE(read_cell("b").found);
  EXPECT_EQ(store().forgotten(), at(10));
  pass_slowly(10 * kGrace);
  EXPECT_EQ(store().use().bytes_used, use.bytes_used);
}

// A client wrote it, or gave it more time, before it was gone.
TEST_F(KvReclaim, AKeyThatIsWrittenAfterItExpiredStays) {
  const auto expires_ns = static_cast<std::uint64_t>(now().nanoseconds);
  ASSERT_EQ(store().put(at(10), {"a", "1", expires_ns}).answer, Answer::done);
  for (int i = 0; i < 1000; ++i) pass(kMoment);
  ASSERT_EQ(put("a", "2", 20), Answer::done);
  for (int i = 0; i < 10; ++i) pass(kGrace);
  EXPECT_EQ(value("a"), "2");
  EXPECT_EQ(store().use().versions, 1);
}

// What was prepared when the walk came by is found as well, and keys that are not in the bucket where they are looked
// for.
TEST_F(KvReclaim, NoKeyThatHasExpiredIsMissed) {
  const auto expires_ns = static_cast<std::uint64_t>((now() + kGrace).nanoseconds);
  const Write late{.key = "late", .value = "1", .expires_ns = expires_ns};
  ASSERT_EQ(store().prepare({at(10), {}, kServers, {&late, 1}}).answer, Answer::done);
  std::uint64_t keys = 0;
  while (store().put(at(11 + keys), {"key " + std::to_string(keys), "1", expires_ns}).answer == Answer::done) ++keys;
  ASSERT_GT(keys, 1000) << "the index is not full enough";
  for (Duration passed{}; passed < 2 * kGrace; passed += kMoment) pass(kMoment);
  EXPECT_EQ(store().use().keys, 0);
  ASSERT_EQ(commit(10), Answer::done);
  EXPECT_EQ(store().use().keys, 1);
  for (Duration passed{}; passed < 2 * kGrace; passed += kMoment) pass(kMoment);
  EXPECT_EQ(store().use().keys, 0);
}

// Some keys that have expired in a large store, at the bound that docs/kv_redis.md has for DBSIZE.
TEST(KvReclaimOfALargeStore, FindsWhatHasExpiredWithinTwoSeconds) {
  StoreUnderTest large({.bytes = 512U << 20U, .grace = StoreUnderTest::kGrace});
  const auto expires_ns = static_cast<std::uint64_t>(large.now().nanoseconds);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::string key = "key " + std::to_string(i);
    ASSERT_EQ(large.store().put(large.at(10 + i), {key, "1", expires_ns}).answer, Answer::done);
  }
  for (Duration passed{}; passed < std::chrono::seconds(2); passed += kMoment) large.pass(kMoment);
  EXPECT_EQ(large.store().use().keys, 0);
}

// A store that keeps nothing longer than it must.
TEST(KvReclaimAtOnce, EndsThoughAnErasedKeyIsPrepared) {
  StoreUnderTest store({.bytes = 1U << 20U, .grace = Duration::zero()});
  store.erase_alone("a", 10);
  store.prepare(20, {"a"}, "2");
  EXPECT_EQ(store.pass(kMoment), 0);
  store.store().abort(store.at(20));
  store.pass(kMoment);
  EXPECT_FALSE(store.read_cell("a").found);
}

// Absent, it could not say who its siblings are.
TEST_F(KvReclaim, AnErasedKeyStaysUntilItIsSettled) {
  erase("a", 20);
  pass(10 * kGrace);
  EXPECT_TRUE(store().at("a", at(20)));
  store().settle(at(20));
  pass(kGrace - kMoment);
  EXPECT_TRUE(store().at("a", at(20))) << "the grace time begins when it is settled";
  pass(kMoment);
  EXPECT_FALSE(store().at("a", at(20)));
}

TEST(KvReclaimRules, WithoutKeepingTombstonesAKeyGoesUnsettled) {
  StoreUnderTest broken(StoreUnderTest::kSettings, {.keeps_unsettled_tombstones = false});
  broken.erase("a", 20);
  broken.pass(StoreUnderTest::kGrace);
  EXPECT_FALSE(broken.store().at("a", broken.at(20)));
}

TEST_F(KvReclaim, AKeyThatIsWrittenAgainStays) {
  erase("a", 20);
  store().settle(at(20));
  pass(kGrace - kMoment);
  prepare(30, {"a"}, "3");
  pass(kGrace);
  EXPECT_TRUE(read_cell("a").found) << "30 may commit";
  commit(30);
  pass(2 * kGrace);
  EXPECT_EQ(value("a"), "3");
  EXPECT_EQ(store().use().versions, 1);
}

TEST_F(KvReclaim, AKeyOfWhichOnlyTheErasureIsLeftGoesAfterAnAbort) {
  erase("a", 20);
  store().settle(at(20));
  prepare(30, {"a"}, "3");
  pass(2 * kGrace);
  store().abort(at(30));
  pass(2 * kGrace);
  EXPECT_FALSE(read_cell("a").found);
}

// Otherwise what was erased would come back to a client that has seen it erased.
TEST_F(KvReclaim, APrepareBelowWhatIsForgottenIsBehind) {
  erase("a", 20);
  store().settle(at(20));
  pass(kGrace);
  const Answered answered = store().prepare(part(15, {"a"}, "1", 8));
  EXPECT_EQ(answered.answer, Answer::behind);
  EXPECT_EQ(answered.newest, at(20));
  EXPECT_EQ(store().prepare(part(25, {"a"}, "1", 8)).answer, Answer::done) << "its cell has no committed version";
  EXPECT_EQ(store().prepare(part(16, {"a"}, "1", 8)).answer, Answer::behind);
}

TEST_F(KvReclaim, WhatIsForgottenIsSaidInTheMemoryWithItsSeal) {
  EXPECT_EQ(memory_head().forgotten_seal, memory_head().seal_of_forgotten());
  erase("a", 20);
  store().settle(at(20));
  pass(kGrace);
  EXPECT_EQ(memory_head().forgotten, at(20));
  EXPECT_EQ(memory_head().forgotten_seal, memory_head().seal_of_forgotten());
}

// Who remembers where a record was, and that it was the newest, must not take it any more.
TEST_F(KvReclaim, ARecordThatWentIsMarkedOrGone) {
  erase("a", 20);
  store().settle(at(20));
  const FoundVersion found = store().newest("a").value();
  pass(kGrace);
  const auto record = read_record(store().record(found), found.generation, "a");
  EXPECT_TRUE(!record || (record->head.mark & RecordHead::kNotNewest) != 0);
}

// Memory.

class KvMemory : public testing::Test, protected StoreUnderTest {
 protected:
  static constexpr StoreSettings kSmall{.bytes = 256U << 10U, .grace = kGrace};
  KvMemory() : StoreUnderTest(kSmall) {}

  /// Puts new keys until there is no room. How many there are.
  std::uint64_t fill(std::uint64_t value_bytes) {
    std::uint64_t keys = 0;
    while (put(key(keys), std::string(value_bytes, 'v'), ++time_) == Answer::done) ++keys;
    return keys;
  }
  [[nodiscard]] static std::string key(std::uint64_t number) { return "key " + std::to_string(number); }

  std::uint64_t time_ = 10;
};

TEST_F(KvMemory, FullChangesNothing) {
  const std::uint64_t keys = fill(100);
  ASSERT_GT(keys, 300);
  const MemoryUse before = store().use();
  const std::string large(1000, 'x');
  EXPECT_EQ(prepare(++time_, {key(0), "new", key(1), "other"}, large), Answer::full);
  const MemoryUse after = store().use();
  EXPECT_EQ(after.keys, before.keys);
  EXPECT_EQ(after.versions, before.versions);
  EXPECT_EQ(after.bytes_used, before.bytes_used);
  for (std::uint64_t i = 0; i < keys; ++i) ASSERT_EQ(value(key(i)), std::string(100, 'v')) << i;
  EXPECT_EQ(prepare(time_, {key(0)}, ""), Answer::barred) << "as whatever is refused";
}

TEST_F(KvMemory, WhatIsDueIsFreedWhenThereIsNoRoom) {
  const std::string value(2000, 'v');
  std::uint64_t puts = 0;
  while (put("a", value, ++time_) == Answer::done) ++puts;
  EXPECT_GT(puts, 50);
  EXPECT_EQ(this->value("a"), value) << "nothing is lost";
  clock_pass(kGrace);
  for (std::uint64_t i = 0; i < 3 * puts; ++i) {
    ASSERT_EQ(put("a", value, ++time_), Answer::done) << i;
    clock_pass(kGrace);
  }
}

// Requests that find no room look for it themselves: the walk beside them would take longer.
TEST_F(KvMemory, WhatHasExpiredMakesRoomAfterTheGraceTime) {
  StoreUnderTest full({.bytes = 8U << 20U, .grace = kGrace});
  const auto expires_ns = static_cast<std::uint64_t>((full.now() + kMoment).nanoseconds);
  const auto put = [&](std::uint64_t number, std::uint64_t expires) {
    return full.store().put(full.at(++time_), {key(number), "v", expires}).answer;
  };
  std::uint64_t keys = 0;
  while (put(keys, expires_ns) == Answer::done) ++keys;
  ASSERT_GT(keys, 10'000);
  full.clock_pass(kMoment);
  for (std::uint64_t request = 0; request < keys / 100; ++request) EXPECT_EQ(put(keys, 0), Answer::full);
  full.clock_pass(kGrace);
  for (std::uint64_t i = 0; i < keys / 10 * 9; ++i) ASSERT_EQ(put(keys + i, 0), Answer::done) << i << " of " << keys;
}

// A full server must be able to give something up.
TEST_F(KvMemory, ErasingWorksWhenItIsFull) {
  const std::uint64_t keys = fill(100);
  for (std::uint64_t i = 0; i < keys; i += 2) {
    while (erase(key(i), ++time_) != Answer::done) {
      store().settle(at(time_));
      ASSERT_NE(pass(kGrace), 0) << i << " of " << keys;
    }
  }
  store().settle(at(time_));
  pass(kGrace);
  for (std::uint64_t i = 0; i < keys; ++i) EXPECT_EQ(value(key(i)).has_value(), i % 2 == 1);
  EXPECT_EQ(put("new", std::string(100, 'v'), ++time_), Answer::done);
}

TEST_F(KvMemory, ValuesOfAllSizesComeBackWhole) {
  StoreUnderTest large({.bytes = 40U << 20U, .grace = kGrace});
  std::uint64_t time = 10;
  for (const std::uint64_t bytes : {0U, 1U, 100U, 431U, 432U, 433U, 5000U, 1U << 20U, 16U << 20U}) {
    const std::string value(bytes, 'v');
    ASSERT_EQ(large.put("a", value, ++time), Answer::done);
    EXPECT_EQ(large.read_cell("a").newest, value);
    large.pass(kGrace);
  }
  const std::string key(kMaxKeyBytes, 'k');
  ASSERT_EQ(large.put(key, "v", ++time), Answer::done);
  EXPECT_EQ(large.read_cell(key).newest, "v");
}

TEST_F(KvMemory, ScanningFindsEachKeyThatIsThere) {
  std::map<std::string, bool> expected;
  for (std::uint64_t i = 0; i < 100; ++i) {
    put(key(i), "v", ++time_);
    if (i % 3 == 0) erase(key(i), ++time_);
    if (i % 3 != 0) expected[key(i)] = true;
  }
  put("else", "v", ++time_);
  prepare(++time_, {"key prepared"}, "v");
  std::map<std::string, bool> found;
  std::uint64_t calls = 0;
  for (std::uint64_t cursor = 0; calls == 0 || cursor != 0; ++calls) {
    Scanned scanned = store().scan(cursor, "key ", 5);
    for (const std::string& key : scanned.keys) found[key] = true;
    cursor = scanned.next;
  }
  EXPECT_EQ(found, expected);
  EXPECT_GT(calls, 10);
  EXPECT_TRUE(store().scan(~std::uint64_t{0}, "", 5).keys.empty());
}

TEST(KvMemorySize, TooLittleIsRefused) {
  EXPECT_THROW(StoreUnderTest({.bytes = 1000, .grace = StoreUnderTest::kGrace}), UsageError);
}

}  // namespace
}  // namespace farside::kv::test
