// The checker against the definition: on small random histories, every order of the commits is tried.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "kv/history/read_atomic.h"

namespace farside::test {
namespace {

using Kind = kv::HistoryOperation::Kind;
using Outcome = kv::HistoryTransaction::Outcome;
using AnomalyKind = kv::HistoryAnomaly::Kind;
using Key = std::uint64_t;

/// The definition, word by word, with no thought of speed.
class Oracle {
 public:
  explicit Oracle(const kv::History& history) : transactions_(history.transactions), size_(transactions_.size()) {
    for (std::size_t reader = 0; reader < size_; ++reader) {
      if (transactions_[reader].outcome != Outcome::aborted) take(reader);
    }
  }

  [[nodiscard]] bool reads_are_right_for_themselves() const { return right_; }

  /// Whether some order of the commits satisfies Read Atomic, and with it the monotonic reads of sessions.
  [[nodiscard]] bool some_order(bool monotonic_reads) const {
    std::set<std::pair<std::size_t, std::size_t>> asked;  // (before, after)
    for (std::size_t reader = 0; reader < size_; ++reader) {
      for (std::size_t other = 0; other < size_; ++other) {
        if (in_session_order(other, reader) || saw(reader, other)) asked.emplace(other, reader);
        for (const auto& [key, writer] : reads_.at(reader)) {
          if (writer == other || !writes_key(other, key)) continue;
          const bool follows = in_session_order(other, reader) || saw(reader, other);
          if (follows || (monotonic_reads && session_saw(reader, other, key))) asked.emplace(other, writer);
        }
      }
    }
    std::vector<std::size_t> places(size_);  // of each transaction in the order
    std::iota(places.begin(), places.end(), 0);
    do {
      const auto holds = [&](const auto& pair) { return places[pair.first] < places[pair.second]; };
      if (std::ranges::all_of(asked, holds)) return true;
    } while (std::next_permutation(places.begin() + 1, places.end()));  // the initial values stand first
    return false;
  }

 private:
  /// All that its reads say when they are looked at one by one.
  void take(std::size_t reader) {
    std::map<Key, std::uint64_t> own;
    std::map<Key, std::uint64_t> others;
    for (const kv::HistoryOperation& operation : transactions_[reader].operations) {
      if (operation.kind == Kind::write) {
        own[operation.key] = operation.value;
      } else if (own.contains(operation.key)) {
        right_ = right_ && own[operation.key] == operation.value;
      } else {
        const auto [seen, first] = others.emplace(operation.key, operation.value);
        const std::optional<std::size_t> writer = committed_writer(operation.key, operation.value);
        right_ = right_ && seen->second == operation.value && writer && *writer != reader;
        if (writer) reads_[reader][operation.key] = *writer;
      }
    }
  }

  /// Whose last write to the key it was.
  [[nodiscard]] std::optional<std::size_t> committed_writer(Key key, std::uint64_t value) const {
    if (value == 0) return kv::kInitialValues;
    for (std::size_t each = 1; each < size_; ++each) {
      if (transactions_[each].outcome == Outcome::aborted) continue;
      std::uint64_t last = 0;
      for (const kv::HistoryOperation& operation : transactions_[each].operations) {
        if (operation.kind == Kind::write && operation.key == key) last = operation.value;
      }
      if (last == value) return each;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool in_session_order(std::size_t before, std::size_t after) const {
    if (before == kv::kInitialValues) return after != kv::kInitialValues;
    return before < after && transactions_[before].session == transactions_[after].session &&
           transactions_[before].outcome == Outcome::committed && transactions_[after].outcome != Outcome::aborted;
  }
  [[nodiscard]] bool saw(std::size_t reader, std::size_t writer) const {
    return std::ranges::any_of(reads_.at(reader), [=](const auto& read) { return read.second == writer; });
  }
  [[nodiscard]] bool writes_key(std::size_t writer, Key key) const {
    return writer == kv::kInitialValues ||
           std::ranges::any_of(transactions_[writer].operations, [=](const auto& operation) {
             return operation.kind == Kind::write && operation.key == key;
           });
  }
  [[nodiscard]] bool session_saw(std::size_t reader, std::size_t writer, Key key) const {
    for (std::size_t earlier = 1; earlier < reader; ++earlier) {
      const auto seen = reads_.at(earlier).find(key);
      if (in_session_order(earlier, reader) && seen != reads_.at(earlier).end() && seen->second == writer) return true;
    }
    return false;
  }

  const std::vector<kv::HistoryTransaction>& transactions_;
  std::size_t size_;
  bool right_ = true;
  std::vector<std::map<Key, std::size_t>> reads_{size_};  ///< of each transaction, by key: the writer that it saw
};

/// A few transactions whose reads see anything, but mostly what might be right.
class RandomHistory {
 public:
  explicit RandomHistory(std::uint32_t seed) : random_(seed) {}

  kv::History make() {
    kv::History history{{"random"}, {{0, kv::kNoHistoryId, 0, Outcome::committed, {}}}};
    const std::uint64_t sessions = below(3) + 1;
    const std::uint64_t keys = below(3) + 1;
    const std::uint64_t transactions = below(6) + 1;
    for (std::uint64_t each = 0; each < transactions; ++each) {
      const Outcome outcome = below(12) == 0   ? Outcome::aborted
                              : below(12) == 0 ? Outcome::unknown
                                               : Outcome::committed;
      history.transactions.push_back({below(sessions), static_cast<std::int64_t>(each), 0, outcome, {}});
      for (std::uint64_t operations = below(4) + 1; operations > 0; --operations) {
        history.transactions.back().operations.push_back(
            {below(2) == 0 ? Kind::write : Kind::read, below(keys) + 1, 0, 0});
      }
    }
    std::ranges::stable_sort(history.transactions.begin() + 1, history.transactions.end(), {},
                             &kv::HistoryTransaction::session);
    give_values(history);
    return history;
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  void give_values(kv::History& history) {
    std::map<Key, std::vector<std::uint64_t>> written;
    std::uint64_t next = 0;
    for (kv::HistoryTransaction& transaction : history.transactions) {
      for (kv::HistoryOperation& operation : transaction.operations) {
        operation.line = ++next;
        if (operation.kind == Kind::write) written[operation.key].push_back(operation.value = next);
      }
    }
    for (kv::HistoryTransaction& transaction : history.transactions) {
      std::map<Key, std::uint64_t> expected;  // what was read or written before
      for (kv::HistoryOperation& operation : transaction.operations) {
        if (operation.kind == Kind::read) {
          const bool repeat = expected.contains(operation.key) && below(20) != 0;
          operation.value = repeat ? expected[operation.key] : seen_value(history, transaction, operation.key);
          if (below(30) == 0) operation.value = one_of(written[operation.key]);
          if (below(200) == 0) operation.value = next + 1;
        }
        expected[operation.key] = operation.value;
      }
    }
  }

  /// Mostly the last write of a transaction that was made before the reader, or the initial value.
  std::uint64_t seen_value(const kv::History& history, const kv::HistoryTransaction& reader, Key key) {
    const bool of_anyone = below(8) == 0;
    std::vector<std::uint64_t> values;
    for (const kv::HistoryTransaction& writer : history.transactions) {
      if (writer.outcome == Outcome::aborted || (writer.id >= reader.id && !of_anyone) || &writer == &reader) continue;
      std::uint64_t last = 0;
      for (const kv::HistoryOperation& operation : writer.operations) {
        if (operation.kind == Kind::write && operation.key == key) last = operation.value;
      }
      if (last != 0) values.push_back(last);
    }
    return below(5) == 0 ? 0 : one_of(values);
  }

  std::uint64_t one_of(const std::vector<std::uint64_t>& values) {
    return values.empty() ? 0 : values[below(values.size())];
  }

  std::mt19937 random_;
};

std::string text_of(const kv::History& history) {
  std::string text;
  for (kv::HistoryIndex each = 1; each < history.transactions.size(); ++each) {
    for (const kv::HistoryOperation& operation : history.transactions[each].operations) {
      text += kv::describe(history, each, operation) + " outcome " +
              std::to_string(static_cast<int>(history.transactions[each].outcome)) + '\n';
    }
  }
  return text;
}

// Right, wrong, and of which sort.
TEST(KvOracle, AgreesWithEveryOrderTried) {
  constexpr std::uint32_t kHistories = 6000;
  std::map<std::optional<AnomalyKind>, int> seen;
  for (std::uint32_t seed = 0; seed < kHistories; ++seed) {
    const kv::History history = RandomHistory(seed).make();
    const std::optional<kv::HistoryAnomaly> anomaly = kv::check_read_atomic(history);
    const std::optional<AnomalyKind> kind = anomaly ? std::optional(anomaly->kind) : std::nullopt;
    ++seen[kind];

    const Oracle oracle(history);
    const bool single_reads = oracle.reads_are_right_for_themselves();
    const bool read_atomic = single_reads && oracle.some_order(false);
    const bool monotonic = read_atomic && oracle.some_order(true);
    ASSERT_EQ(!anomaly, monotonic) << "seed " << seed << '\n' << text_of(history);
    ASSERT_EQ(kind == AnomalyKind::non_monotonic_read, read_atomic && !monotonic) << seed << '\n' << text_of(history);
    const bool of_several_reads = kind == AnomalyKind::circular_flow || kind == AnomalyKind::fractured_read;
    ASSERT_TRUE(single_reads || !of_several_reads) << seed << '\n' << text_of(history);
  }
  // A comparison that never saw one of them would say nothing about it.
  constexpr int kEnough = 20;
  EXPECT_GE(seen[std::nullopt], kEnough);
  for (int each = 0; each <= static_cast<int>(AnomalyKind::non_monotonic_read); ++each) {
    EXPECT_GE(seen[static_cast<AnomalyKind>(each)], kEnough) << kv::name_of(static_cast<AnomalyKind>(each));
  }
}

}  // namespace
}  // namespace farside::test
