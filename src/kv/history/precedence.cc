#include "kv/history/precedence.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace farside::kv {

namespace {

using Read = HistoryAccesses::Read;

/// Calls `found(read)` for each of `reads` whose key is among `writes`; both ascend by key.
template <class Found>
void for_each_read_of(std::span<const std::uint64_t> writes, std::span<const Read> reads, const Found& found) {
  if (writes.size() < reads.size()) {
    for (const std::uint64_t key : writes) {
      const auto read = std::ranges::lower_bound(reads, key, {}, &Read::key);
      if (read != reads.end() && read->key == key) found(*read);
    }
  } else {
    for (const Read& read : reads) {
      if (std::ranges::binary_search(writes, read.key)) found(read);
    }
  }
}

class Inference {
 public:
  Inference(const History& history, const HistoryAccesses& accesses) : history_(history), accesses_(accesses) {}

  std::vector<Precedence> take() {
    for (HistoryIndex each = 1; each < history_.transactions.size(); ++each) {
      const HistoryTransaction& transaction = history_.transactions[each];
      if (transaction.session != history_.transactions[each - 1].session) {
        last_write_.clear();
        last_read_.clear();
      }
      if (transaction.outcome == HistoryTransaction::Outcome::aborted) continue;
      take_atomicity(each);
      take_session(each);
      if (transaction.outcome == HistoryTransaction::Outcome::committed) remember(each);
    }
    return std::move(inferred_);
  }

 private:
  /// A reader that saw one write of a transaction sees all of them.
  void take_atomicity(HistoryIndex reader) {
    const std::span<const Read> reads = accesses_.reads(reader);
    writers_.clear();
    for (const Read& read : reads) writers_.push_back(read.writer);
    std::ranges::sort(writers_);
    writers_.erase(std::unique(writers_.begin(), writers_.end()), writers_.end());
    for (const HistoryIndex writer : writers_) {
      for_each_read_of(accesses_.writes(writer), reads, [&](const Read& read) {
        add({writer, read.writer, PrecedenceReason::atomicity, reader, reader, read.key});
      });
    }
  }

  /// The last write of each key that a session wrote or saw is enough: it comes after the ones before.
  void take_session(HistoryIndex reader) {
    for (const Read& read : accesses_.reads(reader)) {
      if (const auto own = last_write_.find(read.key); own != last_write_.end()) {
        add({own->second, read.writer, PrecedenceReason::own_writes, reader, own->second, read.key});
      }
      if (const auto seen = last_read_.find(read.key); seen != last_read_.end()) {
        add({seen->second.writer, read.writer, PrecedenceReason::monotonic_reads, reader, seen->second.reader,
             read.key});
      }
    }
  }

  void remember(HistoryIndex transaction) {
    for (const std::uint64_t key : accesses_.writes(transaction)) last_write_[key] = transaction;
    for (const Read& read : accesses_.reads(transaction)) last_read_[read.key] = {read.writer, transaction};
  }

  void add(const Precedence& precedence) {
    const bool implied = precedence.before == precedence.after || precedence.before == kInitialValues;
    if (!implied) inferred_.push_back(precedence);
  }

  struct Seen {
    HistoryIndex writer;
    HistoryIndex reader;
  };

  const History& history_;
  const HistoryAccesses& accesses_;
  std::vector<Precedence> inferred_;
  std::vector<HistoryIndex> writers_;                           ///< of one transaction's reads
  std::unordered_map<std::uint64_t, HistoryIndex> last_write_;  ///< of the session, by key
  std::unordered_map<std::uint64_t, Seen> last_read_;
};

/// The first read of `key` by `reader`, as every read of another transaction's write comes before an own write.
std::string describe_read(const History& history, HistoryIndex reader, std::uint64_t key) {
  const std::vector<HistoryOperation>& operations = history.transactions[reader].operations;
  const auto read = std::ranges::find_if(operations, [key](const HistoryOperation& operation) {
    return operation.kind == HistoryOperation::Kind::read && operation.key == key;
  });
  return describe(history, reader, *read);
}

}  // namespace

std::vector<Precedence> infer_precedences(const History& history, const HistoryAccesses& accesses) {
  return Inference(history, accesses).take();
}

std::string describe(const History& history, const HistoryAccesses& accesses, const Precedence& precedence) {
  const auto& [before, after, reason, reader, earlier, key] = precedence;
  std::string order = describe(history, before) + " before " + describe(history, after) + ": ";
  const auto read_of = [&](HistoryIndex by, std::uint64_t of) { return describe_read(history, by, of); };
  switch (reason) {
    case PrecedenceReason::session_order:
      return order + (before == kInitialValues ? "they stand before everything" : "the order of the session");
    case PrecedenceReason::read_from: return order + "the latter saw a write of the former, " + read_of(after, key);
    case PrecedenceReason::atomicity: {
      const auto seen = std::ranges::find(accesses.reads(earlier), before, &Read::writer);
      return order +
             fmt::format("both wrote key {}; {} saw the write of the latter, {}, and another one of the former, {}",
                         key, describe(history, reader), read_of(reader, key), read_of(earlier, seen->key));
    }
    case PrecedenceReason::own_writes:
      return order + fmt::format("both wrote key {}; {}, in the session of the former, saw the write of the latter, {}",
                                 key, describe(history, reader), read_of(reader, key));
    case PrecedenceReason::monotonic_reads:
      return order + fmt::format(
                         "both wrote key {}; {} saw the write of the latter, {}, after its session had seen the "
                         "former's, {}",
                         key, describe(history, reader), read_of(reader, key), read_of(earlier, key));
  }
  return order;
}

}  // namespace farside::kv
