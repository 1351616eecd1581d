// Random calls of a store, beside a map that knows what should be there.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/server/store_fixture.h"
#include "tests/support/reduced.h"

namespace farside::kv::test {
namespace {

using farside::test::reduced;

struct KnownVersion {
  std::string value;
  bool erased = false;
  bool committed = false;
  std::optional<Time> over;  ///< since when it is superseded, or erased and settled
};
using KnownKey = std::map<Timestamp, KnownVersion>;

class Oracle {
 public:
  Oracle(const StoreSettings& settings, std::uint64_t seed) : random_(seed), store_(settings) {}

  void step() {
    ++time_;
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2: return prepare();
      case 3:
      case 4: return commit();
      case 5: return abort();
      case 6: return settle();
      default: return pass(std::chrono::milliseconds(random_() % 400));
    }
  }
  void finish() {
    while (!prepared_.empty()) end(prepared_.begin()->first, random_() % 2 == 0);
    settle_all();
    pass(2 * StoreUnderTest::kGrace);
    pass(2 * StoreUnderTest::kGrace);
    for (auto& [name, key] : keys_) check(name, key);
    std::uint64_t alive = 0;
    for (const auto& [name, key] : keys_) alive += newest(key) != nullptr && !newest(key)->second.erased ? 1 : 0;
    EXPECT_EQ(store().use().keys, alive);
    EXPECT_EQ(store().use().versions, alive);
  }
  /// Whatever is left is erased: nothing may stay behind.
  void erase_all() {
    for (const auto& [name, key] : keys_) {
      ASSERT_EQ(store_.erase(name, 4 * ++time_), Answer::done) << name;
      store().settle(StoreUnderTest::at(4 * time_));
      store_.pass(StoreUnderTest::kGrace);
    }
    EXPECT_EQ(store().use().keys, 0);
    EXPECT_EQ(store().use().versions, 0);
    EXPECT_EQ(store().use().bytes_used, 0);
  }
  [[nodiscard]] const std::set<Answer>& answers() const { return answers_; }

 private:
  static constexpr std::uint64_t kSessions = 3;
  static constexpr std::uint64_t kKeys = 12;

  [[nodiscard]] Store& store() { return store_.store(); }
  [[nodiscard]] static const KnownKey::value_type* newest(const KnownKey& key) {
    const KnownKey::value_type* newest = nullptr;
    for (const auto& version : key) newest = version.second.committed ? &version : newest;
    return newest;
  }

  void prepare() {
    const Timestamp timestamp{time_ * 4 - random_() % 40, StoreUnderTest::kSession + random_() % kSessions};
    if (!used_.insert(timestamp).second) return;
    std::map<std::string, std::string> values;
    for (std::uint64_t i = random_() % 4 + 1; i > 0; --i) {
      values["key " + std::to_string(random_() % kKeys)] =
          std::string(random_() % most_bytes(), static_cast<char>('a' + random_() % 26));
    }
    std::vector<Write> writes;
    for (const auto& [key, value] : values) {
      const bool erase = random_() % 4 == 0;
      writes.push_back({key, erase ? std::string_view() : value, 0, erase});
    }
    Timestamp newest_committed;
    for (const Write& write : writes) {
      const auto found = store().newest(write.key);
      newest_committed = std::max(newest_committed, found ? found->timestamp : store().forgotten());
    }
    const Answer answer = store().prepare({timestamp, {}, StoreUnderTest::kServers, writes}).answer;
    answers_.insert(answer);
    if (timestamp.time <= settled_[timestamp.session]) {
      ASSERT_EQ(answer, Answer::barred);
    } else if (newest_committed > timestamp) {
      ASSERT_EQ(answer, Answer::behind);
    } else {
      ASSERT_TRUE(answer == Answer::done || answer == Answer::full);
    }
    if (answer != Answer::done) {
      EXPECT_EQ(store().fate_or_bar(timestamp), Fate::aborted);
      return;
    }
    for (const Write& write : writes) {
      keys_[std::string(write.key)][timestamp] = {std::string(write.value), write.erase, false, {}};
      prepared_[timestamp].emplace_back(write.key);
      check(std::string(write.key), keys_[std::string(write.key)]);
    }
  }
  void commit() { end_one(true); }
  void abort() { end_one(false); }
  void end_one(bool commits) {
    if (prepared_.empty()) return;
    auto chosen = prepared_.begin();
    std::advance(chosen, random_() % prepared_.size());
    end(chosen->first, commits);
  }
  void end(const Timestamp timestamp, bool commits) {
    if (commits) {
      ASSERT_EQ(store().commit(timestamp).answer, Answer::done);
    } else {
      store().abort(timestamp);
    }
    for (const std::string& name : prepared_.at(timestamp)) {
      KnownKey& key = keys_[name];
      if (!commits) {
        key.erase(timestamp);
      } else {
        if (const auto* before = newest(key)) key.at(before->first).over.reset();
        key.at(timestamp).committed = true;
        note_what_is_over(key);
      }
      check(name, key);
    }
    prepared_.erase(timestamp);
  }
  void note_what_is_over(KnownKey& key) {
    const auto* last = newest(key);
    for (auto& [timestamp, version] : key) {
      const bool is_tombstone = version.erased && timestamp.time <= settled_[timestamp.session];
      if (version.committed && !version.over && (timestamp != last->first || is_tombstone)) version.over = store_.now();
    }
  }
  /// As much of a session as is finished.
  void settle() { settle(StoreUnderTest::kSession + random_() % kSessions); }
  void settle_all() {
    for (std::uint64_t session = 0; session < kSessions; ++session) settle(StoreUnderTest::kSession + session);
  }
  void settle(std::uint64_t session) {
    std::uint64_t up_to = 4 * time_ > 60 ? 4 * time_ - 60 : 0;
    if (prepared_.empty()) up_to = 4 * time_;
    for (const auto& [timestamp, keys] : prepared_) {
      if (timestamp.session == session) up_to = std::min(up_to, timestamp.time - 1);
    }
    settled_[session] = std::max(settled_[session], up_to);
    store().settle({up_to, session});
    for (auto& [name, key] : keys_) {
      note_what_is_over(key);
      check(name, key);
    }
  }
  void pass(Duration duration) {
    store_.pass(duration);
    for (auto& [name, key] : keys_) {
      const auto* last = newest(key);
      const auto is_due = [this, last](const KnownKey::value_type& version) {
        return version.second.over && version.first != last->first &&
               store_.now() - *version.second.over >= StoreUnderTest::kGrace;
      };
      std::erase_if(key, is_due);
      check(name, key);
    }
  }

  /// Everything that is to be found of the key, and nothing that is not.
  void check(const std::string& name, const KnownKey& key) {
    const auto* last = newest(key);
    const auto value = store_.value(name);
    const bool is_there = last != nullptr && !last->second.erased;
    ASSERT_TRUE(value == (is_there ? std::optional(last->second.value) : std::nullopt)) << name;  // it may be long
    ASSERT_TRUE(store_.read_cell(name).newest == value) << name;
    for (const auto& [timestamp, version] : key) {
      const auto found = store().at(name, timestamp);
      const bool may_be_gone = version.over.has_value();  // also before its time, to make room
      if (!found && may_be_gone) continue;
      ASSERT_TRUE(found) << name << " at " << timestamp.time;
      const auto record = store().record(*found);
      const auto read = read_record(record, found->generation, name);
      ASSERT_TRUE(read);
      ASSERT_TRUE(read->value == version.value);
      ASSERT_EQ(read->erased(), version.erased);
      ASSERT_EQ(found->place.state, version.committed ? VersionState::committed : VersionState::prepared);
      const bool is_last = &version == (last == nullptr ? nullptr : &last->second) && key.rbegin()->first == timestamp;
      ASSERT_EQ((read->head.mark & RecordHead::kNotNewest) == 0, is_last) << name << " at " << timestamp.time;
      const bool is_settled = version.committed && timestamp.time <= settled_[timestamp.session];
      ASSERT_EQ((read->head.mark & RecordHead::kSettled) != 0, is_settled) << name << " at " << timestamp.time;
    }
  }
  /// Now and then what has no copy in a cell, or takes much of the memory.
  std::uint64_t most_bytes() { return random_() % 16 == 0 ? 20'000 : random_() % 4 == 0 ? 2'000 : 100; }

  std::mt19937_64 random_;
  StoreUnderTest store_;
  std::uint64_t time_ = 100;
  std::set<Timestamp> used_;
  std::map<std::string, KnownKey> keys_;
  std::map<Timestamp, std::vector<std::string>> prepared_;
  std::map<std::uint64_t, std::uint64_t> settled_;
  std::set<Answer> answers_;
};

class KvOracle : public testing::TestWithParam<std::uint64_t> {};

TEST_P(KvOracle, TheStoreDoesWhatItSays) {
  Oracle oracle({.bytes = 1U << 20U, .grace = StoreUnderTest::kGrace}, GetParam());
  for (std::uint64_t step = 0; step < reduced(1'500); ++step) {
    oracle.step();
    if (HasFatalFailure()) return;
  }
  oracle.finish();
  oracle.erase_all();
  EXPECT_TRUE(oracle.answers().contains(Answer::behind)) << "not tried";
}

// With so little memory that prepares are refused all the time.
TEST_P(KvOracle, TheStoreDoesWhatItSaysWhenItIsFull) {
  Oracle oracle({.bytes = 80U << 10U, .grace = StoreUnderTest::kGrace}, GetParam());
  for (std::uint64_t step = 0; step < reduced(1'500); ++step) {
    oracle.step();
    if (HasFatalFailure()) return;
  }
  oracle.finish();
  oracle.erase_all();
  EXPECT_TRUE(oracle.answers().contains(Answer::full)) << "not tried";
}

INSTANTIATE_TEST_SUITE_P(Seeds, KvOracle, testing::Range<std::uint64_t>(1, 4));

}  // namespace
}  // namespace farside::kv::test
