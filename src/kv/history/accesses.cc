#include "kv/history/accesses.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "farside/base/error.h"

namespace farside::kv {

namespace {

using Kind = HistoryAnomaly::Kind;
using Position = std::uint32_t;

/// Calls `take(positions)` for each key, with the places of its operations in the transaction's order.
template <class Take>
void for_each_key(const std::vector<HistoryOperation>& operations, const Take& take) {
  std::vector<Position> positions(operations.size());
  std::iota(positions.begin(), positions.end(), Position{0});
  const auto key_of = [&](Position position) { return operations[position].key; };
  std::ranges::sort(positions, {}, [&](Position position) { return std::pair(key_of(position), position); });
  for (auto from = positions.begin(); from != positions.end();) {
    const auto to = std::find_if(from, positions.end(), [&](Position other) { return key_of(other) != key_of(*from); });
    take(std::span<const Position>(from, to));
    from = to;
  }
}

}  // namespace

/// Every write of a history, by key and value.
class HistoryWrites {
 public:
  struct Entry {
    std::uint64_t key;
    std::uint64_t value;
    HistoryIndex by;
    Position position;
    bool last;  ///< of this transaction to this key
  };

  void add(const Entry& entry) { entries_.push_back(entry); }

  void sort(const History& history) {
    std::ranges::sort(entries_, {}, identity);
    const auto twice = std::ranges::adjacent_find(entries_, {}, identity);
    if (twice == entries_.end()) return;
    throw UsageError(
        {"check the history", place_of(history, twice[1].by, operation(history, twice[1])),
         "the same value was written to the key before, at " + place_of(history, twice->by, operation(history, *twice)),
         "record values that are unique for each key"});
  }

  [[nodiscard]] const Entry* find(std::uint64_t key, std::uint64_t value) const {
    const auto found = std::ranges::lower_bound(entries_, std::pair(key, value), {}, identity);
    return found != entries_.end() && identity(*found) == std::pair(key, value) ? &*found : nullptr;
  }

  static const HistoryOperation& operation(const History& history, const Entry& entry) {
    return history.transactions[entry.by].operations[entry.position];
  }

 private:
  static std::pair<std::uint64_t, std::uint64_t> identity(const Entry& entry) { return {entry.key, entry.value}; }

  std::vector<Entry> entries_;
};

namespace {

/// Looks at one transaction's operations on one key, in their order.
class KeyReads {
 public:
  KeyReads(const History& history, HistoryIndex reader, const HistoryWrites& writes)
      : history_(history), reader_(reader), writes_(writes) {}

  /// The writer of the reads that do not see an own write.
  [[nodiscard]] std::optional<HistoryIndex> writer() const { return writer_; }

  std::optional<HistoryAnomaly> take(Position position) {
    const HistoryOperation& operation = history_.transactions[reader_].operations[position];
    if (operation.kind == HistoryOperation::Kind::write) {
      own_ = &operation;
      return std::nullopt;
    }
    if (operation.value == 0) return take_from_other(operation, kInitialValues);
    const HistoryWrites::Entry* source = writes_.find(operation.key, operation.value);
    if (source == nullptr) return anomaly(Kind::thin_air_read, operation, ": no transaction wrote this value");
    const HistoryOperation& write = HistoryWrites::operation(history_, *source);
    if (source->by == reader_) {
      if (source->position > position) return anomaly(Kind::future_read, operation, " comes before its write", write);
      if (&write == own_) return std::nullopt;
      return anomaly(Kind::own_write_missed, operation, " comes after the transaction's own", *own_);
    }
    if (history_.transactions[source->by].outcome == HistoryTransaction::Outcome::aborted) {
      return anomaly(Kind::aborted_read, operation, " sees what an aborted transaction wrote", write, source->by);
    }
    if (!source->last) {
      return anomaly(Kind::intermediate_read, operation, " sees what its writer then overwrote", write, source->by);
    }
    return take_from_other(operation, source->by);
  }

 private:
  std::optional<HistoryAnomaly> take_from_other(const HistoryOperation& operation, HistoryIndex writer) {
    if (own_ != nullptr) {
      return anomaly(Kind::own_write_missed, operation, " comes after the transaction's own", *own_);
    }
    if (writer_ && *writer_ != writer) {
      return anomaly(Kind::non_repeatable_read, operation, " comes after", *first_);
    }
    if (!writer_) first_ = &operation;
    writer_ = writer;
    return std::nullopt;
  }

  HistoryAnomaly anomaly(Kind kind, const HistoryOperation& operation, const std::string& why) const {
    return {kind, {describe(history_, reader_, operation) + why}};
  }
  HistoryAnomaly anomaly(Kind kind, const HistoryOperation& operation, const std::string& why,
                         const HistoryOperation& other, HistoryIndex by) const {
    return anomaly(kind, operation, why + ": " + describe(history_, by, other));
  }
  HistoryAnomaly anomaly(Kind kind, const HistoryOperation& operation, const std::string& why,
                         const HistoryOperation& other) const {
    return anomaly(kind, operation, why, other, reader_);
  }

  const History& history_;
  HistoryIndex reader_;
  const HistoryWrites& writes_;
  const HistoryOperation* own_ = nullptr;    ///< the transaction's last write so far
  const HistoryOperation* first_ = nullptr;  ///< its first read of another's write
  std::optional<HistoryIndex> writer_;
};

}  // namespace

HistoryAccesses::HistoryAccesses(const History& history) {
  HistoryWrites index;
  const auto transactions = static_cast<HistoryIndex>(history.transactions.size());
  for (HistoryIndex each = 0; each < transactions; ++each) take_writes(history, each, index);
  index.sort(history);
  for (HistoryIndex each = 0; each < transactions && !anomaly_; ++each) take_reads(history, each, index);
}

void HistoryAccesses::take_writes(const History& history, HistoryIndex transaction, HistoryWrites& index) {
  const std::vector<HistoryOperation>& operations = history.transactions[transaction].operations;
  for_each_key(operations, [&](std::span<const Position> positions) {
    std::optional<Position> last;
    const auto is_write = [&](Position position) { return operations[position].kind == HistoryOperation::Kind::write; };
    for (const Position position : positions) {
      if (is_write(position)) last = position;
    }
    if (last) writes_.push_back(operations[*last].key);
    for (const Position position : positions) {
      const auto& [kind, key, value, line] = operations[position];
      if (is_write(position)) index.add({key, value, transaction, position, position == last});
    }
  });
  first_write_.push_back(writes_.size());
}

void HistoryAccesses::take_reads(const History& history, HistoryIndex transaction, const HistoryWrites& index) {
  const HistoryTransaction& reader = history.transactions[transaction];
  if (reader.outcome != HistoryTransaction::Outcome::aborted) {
    for_each_key(reader.operations, [&](std::span<const Position> positions) {
      KeyReads reads(history, transaction, index);
      for (const Position position : positions) {
        if (!anomaly_) anomaly_ = reads.take(position);
      }
      if (reads.writer()) reads_.push_back({reader.operations[positions.front()].key, *reads.writer()});
    });
  }
  first_read_.push_back(reads_.size());
}

}  // namespace farside::kv
