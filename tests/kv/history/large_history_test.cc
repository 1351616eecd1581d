// A million transactions are judged in well under a minute, and one wrong read among them is found.
#include <algorithm>
#include <iostream>
#include <random>

#include <gmock/gmock.h>

#include "kv/history/recorder.h"
#include "tests/support/pool.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kTransactions = 1'000'000;
constexpr std::uint64_t kSessions = 16;
constexpr int kOperations = 4;
constexpr std::uint64_t kKeys = 50'000;
constexpr std::int64_t kMaxLag = 100;  ///< in transactions, of what a reader sees

/// A store of which each transaction sees one moment of the recent past, never one before what its session knows.
class LaggingStore {
 public:
  explicit LaggingStore(const std::filesystem::path& directory) {
    for (std::uint64_t session = 0; session < kSessions; ++session) {
      files_.push_back(directory / ("session-" + std::to_string(session) + ".txt"));
      recorders_.emplace_back(files_.back(), session);
    }
  }

  void run() {
    for (std::int64_t now = 1; now <= kTransactions; ++now) {
      const std::uint64_t session = random_() % kSessions;
      kv::HistoryRecorder& recorder = recorders_[session];
      std::int64_t& known = known_[session];
      if (random_() % 2 == 0) {
        for (const std::uint64_t key : some_keys()) {
          versions_[key].push_back(now);
          recorder.write(now, key, static_cast<std::uint64_t>(now));
        }
        known = now;
      } else {
        known = std::max(known, now - static_cast<std::int64_t>(random_() % kMaxLag));
        for (const std::uint64_t key : some_keys()) recorder.read(now, key, seen(key, known));
      }
    }
  }

  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  kv::HistoryRecorder& recorder(std::uint64_t session) { return recorders_[session]; }

 private:
  std::vector<std::uint64_t> some_keys() {
    std::vector<std::uint64_t> keys;
    while (keys.size() < kOperations) {
      const std::uint64_t key = random_() % kKeys;
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
    return keys;
  }

  /// A version is named after the moment of its transaction.
  [[nodiscard]] std::uint64_t seen(std::uint64_t key, std::int64_t moment) const {
    const auto later = std::ranges::upper_bound(versions_[key], moment);
    return later == versions_[key].begin() ? 0 : static_cast<std::uint64_t>(*(later - 1));
  }

  std::mt19937_64 random_;  ///< the same history each time
  std::vector<std::string> files_;
  std::vector<kv::HistoryRecorder> recorders_;
  std::vector<std::vector<std::int64_t>> versions_{kKeys};
  std::vector<std::int64_t> known_ = std::vector<std::int64_t>(kSessions);
};

TEST(KvLargeHistory, IsJudged) {
  const TemporaryDirectory directory;
  LaggingStore store(directory.path());
  store.run();
  std::vector<std::string> check{FARSIDE_COMMAND, "kv", "check"};
  check.insert(check.end(), store.files().begin(), store.files().end());

  const CommandEnd right = run(check);
  EXPECT_EQ(right.code(), 0) << right.out << right.err;
  EXPECT_THAT(right.out, HasSubstr("1000000 transactions in 16 sessions, 4000000 operations"));
  std::cout << right.out;

  // At the end one session sees a part of a transaction alone.
  store.recorder(0).write(kTransactions + 1, kKeys, 1);
  store.recorder(0).write(kTransactions + 1, kKeys + 1, 1);
  store.recorder(1).read(kTransactions + 2, kKeys, 1);
  store.recorder(1).read(kTransactions + 2, kKeys + 1, 0);
  const CommandEnd wrong = run(check);
  EXPECT_EQ(wrong.code(), 1) << wrong.err;
  EXPECT_THAT(wrong.out, HasSubstr("fractured read"));
  std::cout << wrong.out;
}

}  // namespace
}  // namespace farside::test
