// accesses.h — which transaction each read of a history saw, and the reads that are wrong whatever else happened.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/history/anomaly.h"
#include "kv/history/history.h"

namespace farside::kv {

class HistoryWrites;

/// The reads of each transaction from others, and the writes that it left behind. Takes O(n log n) for n operations.
class HistoryAccesses {
 public:
  /// All reads of `key` by one transaction that do not see its own write.
  struct Read {
    std::uint64_t key;
    HistoryIndex writer;
  };

  /// A value that is written twice to one key throws UsageError.
  explicit HistoryAccesses(const History& history);

  /// A read that breaks a rule about single reads. When there is one, reads() is not complete.
  [[nodiscard]] const std::optional<HistoryAnomaly>& anomaly() const { return anomaly_; }

  /// In ascending order of keys, each once. Aborted transactions have none.
  [[nodiscard]] std::span<const Read> reads(HistoryIndex transaction) const {
    return part(reads_, first_read_, transaction);
  }
  /// The keys written, ascending, each once. The initial values have none, although they are of every key.
  [[nodiscard]] std::span<const std::uint64_t> writes(HistoryIndex transaction) const {
    return part(writes_, first_write_, transaction);
  }

 private:
  template <class Element>
  static std::span<const Element> part(const std::vector<Element>& all, const std::vector<std::size_t>& first,
                                       HistoryIndex transaction) {
    return std::span(all).subspan(first[transaction], first[transaction + 1] - first[transaction]);
  }

  void take_writes(const History& history, HistoryIndex transaction, HistoryWrites& index);
  void take_reads(const History& history, HistoryIndex transaction, const HistoryWrites& index);

  std::vector<Read> reads_;
  std::vector<std::size_t> first_read_{0};
  std::vector<std::uint64_t> writes_;
  std::vector<std::size_t> first_write_{0};
  std::optional<HistoryAnomaly> anomaly_;
};

}  // namespace farside::kv
