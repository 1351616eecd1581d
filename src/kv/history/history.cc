#include "kv/history/history.h"

#include <fmt/format.h>

namespace farside::kv {

std::string history_line(HistoryOperation::Kind kind, std::uint64_t key, std::uint64_t value, std::uint64_t session,
                         std::int64_t id) {
  return fmt::format("{}({},{},{},{})", kind == HistoryOperation::Kind::write ? 'w' : 'r', key, value, session, id);
}

std::string place_of(const History& history, HistoryIndex by, const HistoryOperation& operation) {
  return fmt::format("{}:{}", history.files[history.transactions[by].file], operation.line);
}

std::string describe(const History& history, HistoryIndex by, const HistoryOperation& operation) {
  const HistoryTransaction& transaction = history.transactions[by];
  return history_line(operation.kind, operation.key, operation.value, transaction.session, transaction.id) + " at " +
         place_of(history, by, operation);
}

std::string describe(const History& history, HistoryIndex transaction) {
  if (transaction == kInitialValues) return "the initial values";
  const HistoryTransaction& described = history.transactions[transaction];
  if (described.id == kNoHistoryId) return fmt::format("an aborted transaction of session {}", described.session);
  return fmt::format("transaction {} of session {}", described.id, described.session);
}

}  // namespace farside::kv
