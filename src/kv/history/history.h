// history.h — what clients of a transactional store did and saw, as a checker wants it: docs/kv_histories.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farside::kv {

struct HistoryOperation {
  enum class Kind : std::uint8_t { read, write };

  Kind kind;
  std::uint64_t key;
  std::uint64_t value;  ///< written once per key; 0 is what every key held before the history
  std::uint64_t line;   ///< in the file of its transaction
};

struct HistoryTransaction {
  /// Unknown: it may have taken effect, or may do so at any later time, or never.
  enum class Outcome : std::uint8_t { committed, aborted, unknown };

  std::uint64_t session;
  std::int64_t id;  ///< unique within the session; kNoHistoryId
  std::uint32_t file;
  Outcome outcome;
  std::vector<HistoryOperation> operations;
};

/// The id of aborted operations of which it is not told to which transaction they belong.
inline constexpr std::int64_t kNoHistoryId = -1;

/// A transaction's place in History::transactions.
using HistoryIndex = std::uint32_t;

/// The transaction before all others, which wrote 0 to every key.
inline constexpr HistoryIndex kInitialValues = 0;

struct History {
  std::vector<std::string> files;
  /// First the initial values, which have no operations here; then session by session, each in its order.
  std::vector<HistoryTransaction> transactions;
};

/// Reads `files` as one history. What is no history throws UsageError naming file and line.
[[nodiscard]] History read_history(std::span<const std::string> files);

/// An operation as a line of a history, without its end: "w(key,value,session,id)".
[[nodiscard]] std::string history_line(HistoryOperation::Kind kind, std::uint64_t key, std::uint64_t value,
                                       std::uint64_t session, std::int64_t id);

/// "a.txt:12"
[[nodiscard]] std::string place_of(const History& history, HistoryIndex by, const HistoryOperation& operation);

/// "r(3,9,2,7) at a.txt:12"
[[nodiscard]] std::string describe(const History& history, HistoryIndex by, const HistoryOperation& operation);

/// "transaction 7 of session 2"
[[nodiscard]] std::string describe(const History& history, HistoryIndex transaction);

}  // namespace farside::kv
