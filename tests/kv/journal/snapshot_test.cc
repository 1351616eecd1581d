// Snapshots: what is found again after one, whole or begun, and what it takes to begin with it.
#include "tests/kv/journal/journal_fixture.h"

namespace farside::kv::test {
namespace {

using KvSnapshot = JournalTest;

JournalSettings often_anew() { return {.sync = SyncPolicy::always, .least_log_bytes = 4096}; }

/// Has the journal do what is due until it has nothing to do.
void rest(Life& life, const std::filesystem::path& snapshot) {
  const auto deadline = std::chrono::steady_clock::now() + extended(std::chrono::seconds(30));
  while (!std::filesystem::exists(snapshot) && std::chrono::steady_clock::now() < deadline) (void)life.logged().step();
  ASSERT_TRUE(std::filesystem::exists(snapshot));
  while (life.logged().step()) continue;
}

TEST_F(KvSnapshot, WritesASnapshotInPlaceOfAnOldLog) {
  Contents before;
  {
    Life life(directory(), often_anew(), {.bytes = 1U << 20U});
    ASSERT_EQ(life.prepare(1, {"p", "q"}, "prepared"), Answer::done);
    ASSERT_EQ(life.tell(RequestKind::abort, 2), Answer::done);
    const std::string value(100, 'v');
    std::uint64_t time = 10;
    while (std::filesystem::file_size(log()) < (1U << 20U)) {
      ASSERT_EQ(life.put("key " + std::to_string(time % 64), value, time), Answer::done);
      ++time;
      (void)life.pass(StoreUnderTest::kGrace);
    }
    rest(life, file({JournalFileKind::snapshot, 2}));
    ASSERT_EQ(life.put("after", "1", time), Answer::done);
    before = life.contents();
  }
  EXPECT_FALSE(std::filesystem::exists(log(1)));
  Life life(directory(), {}, {.bytes = 1U << 20U});
  EXPECT_EQ(life.contents(), before);
  EXPECT_EQ(life.tell(RequestKind::commit, 2), Answer::barred);
  EXPECT_EQ(life.put("late", "1", 5), Answer::barred) << "it is among those of its session that were forgotten";
  EXPECT_EQ(life.tell(RequestKind::commit, 1), Answer::done);
  EXPECT_EQ(life.value("q"), "prepared");
}

/// A snapshot that has come half way: all keys are those of the first half of the index, and most of them are in it.
class HalfASnapshot {
 public:
  static constexpr std::uint64_t kBytes = 2U << 20U;
  static constexpr std::size_t kKeys = 150;

  explicit HalfASnapshot(const std::filesystem::path& directory) : life_(directory, often_anew(), {.bytes = kBytes}) {}

  [[nodiscard]] Life& life() { return life_; }
  void begin(const std::filesystem::path& log) {
    const std::string value(4000, 'v');  // so large that a step takes 64 of them
    while (std::filesystem::file_size(log) < 3 * kBytes) {
      ASSERT_EQ(life_.put(keys_[time_ % kKeys], value, time_), Answer::done);
      ++time_;
      (void)life_.pass(StoreUnderTest::kGrace);
    }
    const auto snapshot = log.parent_path() / "snapshot-0000000000000002.new";
    const auto deadline = std::chrono::steady_clock::now() + extended(std::chrono::seconds(30));
    while (!std::filesystem::exists(snapshot) && std::chrono::steady_clock::now() < deadline) {
      (void)life_.logged().step();
    }
    ASSERT_TRUE(std::filesystem::exists(snapshot));
    ASSERT_TRUE(life_.logged().step());
  }
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }
  [[nodiscard]] std::vector<std::string> keys_of_second_half(std::size_t count) { return keys_of_half(1, count); }
  std::uint64_t next_time() { return time_++; }

 private:
  [[nodiscard]] std::vector<std::string> keys_of_half(std::uint64_t half, std::size_t count) {
    const std::uint64_t buckets = life_.memory_head().index_buckets;
    std::vector<std::string> keys;
    for (std::uint64_t number = 0; keys.size() < count; ++number) {
      std::string key = std::to_string(half) + " " + std::to_string(number);
      if (bucket_of(key_id(key), buckets) / (buckets / 2) == half) keys.push_back(std::move(key));
    }
    return keys;
  }

  Life life_;
  std::vector<std::string> keys_ = keys_of_half(0, kKeys);
  std::uint64_t time_ = 1000;
};

// What was prepared when it began, and committed meanwhile, is in the log; what erased it is older than the log.
TEST_F(KvSnapshot, BringsNothingBackThatWasErasedBeforeASlowSnapshot) {
  std::vector<std::string> erased;
  {
    HalfASnapshot snapshot(directory());
    Life& life = snapshot.life();
    erased = snapshot.keys_of_second_half(10);
    for (std::size_t i = 0; i < erased.size(); ++i) {
      ASSERT_EQ(life.prepare(i + 1, {erased[i]}, "old"), Answer::done);
      ASSERT_EQ(life.put(erased[i], "", i + 100, true), Answer::done);
    }
    ASSERT_NO_FATAL_FAILURE(snapshot.begin(log()));
    for (std::size_t i = 0; i < erased.size(); ++i) {
      ASSERT_EQ(life.tell(RequestKind::commit, i + 1), Answer::done);
    }
    for (int moment = 0; moment < 3; ++moment) (void)life.pass(2 * StoreUnderTest::kGrace);
    ASSERT_EQ(life.store().use().versions, HalfASnapshot::kKeys);
    rest(life, file({JournalFileKind::snapshot, 2}));
  }
  Life life(directory(), {}, {.bytes = HalfASnapshot::kBytes});
  for (const std::string& key : erased) EXPECT_EQ(life.value(key), std::nullopt) << key;
  EXPECT_EQ(life.store().use().keys, HalfASnapshot::kKeys);
}

// What was walked early is in the snapshot beside what took its place later.
TEST_F(KvSnapshot, NeedsNoMoreRoomThanThereWasAtAnyMomentOfASnapshot) {
  std::size_t fitting = 0;
  {
    HalfASnapshot snapshot(directory());
    Life& life = snapshot.life();
    ASSERT_NO_FATAL_FAILURE(snapshot.begin(log()));
    for (const std::string& key : snapshot.keys()) {
      ASSERT_EQ(life.put(key, "", snapshot.next_time(), true), Answer::done);
    }
    for (int moment = 0; moment < 3; ++moment) (void)life.pass(2 * StoreUnderTest::kGrace);
    ASSERT_EQ(life.store().use().versions, 0u);
    const std::string value(4000, 'w');
    const auto keys = snapshot.keys_of_second_half(HalfASnapshot::kBytes / value.size());
    while (life.put(keys[fitting], value, snapshot.next_time()) == Answer::done) ++fitting;
    rest(life, file({JournalFileKind::snapshot, 2}));
  }
  ASSERT_GE(fitting, 2 * HalfASnapshot::kKeys);
  Life life(directory(), {}, {.bytes = HalfASnapshot::kBytes});
  EXPECT_EQ(life.store().use().versions, fitting);
}

TEST_F(KvSnapshot, CountsNoKeyTwice) {
  {
    HalfASnapshot snapshot(directory());
    Life& life = snapshot.life();
    ASSERT_NO_FATAL_FAILURE(snapshot.begin(log()));
    for (const std::string& key : snapshot.keys()) {
      ASSERT_EQ(life.put(key, "once more", snapshot.next_time()), Answer::done);
    }
    rest(life, file({JournalFileKind::snapshot, 2}));
    ASSERT_EQ(life.store().use().keys, HalfASnapshot::kKeys);
  }
  Life life(directory(), {}, {.bytes = HalfASnapshot::kBytes});
  EXPECT_EQ(life.store().use().keys, HalfASnapshot::kKeys);
}

}  // namespace
}  // namespace farside::kv::test
