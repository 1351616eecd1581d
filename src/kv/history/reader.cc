#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "farside/base/error.h"

#include "kv/history/history.h"

namespace farside::kv {

namespace {

/// Takes lines one after another. Those of a session stand in its order; how sessions mix means nothing.
class HistoryReader {
 public:
  void read(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw UsageError({"open the history", path, std::strerror(errno), "check the file's name"});
    history_.files.push_back(path);
    line_ = 0;
    for (std::string line; std::getline(file, line);) {
      ++line_;
      take(line);
    }
    if (file.bad()) throw UsageError({"read the history", path, "it is not a readable file", "check the file's name"});
  }

  History finish() {
    if (history_.transactions.size() == 1) {
      throw UsageError({"read the history", history_.files.front(), "nothing is recorded there", "record something"});
    }
    std::stable_sort(history_.transactions.begin() + 1, history_.transactions.end(),
                     [](const auto& left, const auto& right) { return left.session < right.session; });
    return std::move(history_);
  }

 private:
  using Outcome = HistoryTransaction::Outcome;
  using Kind = HistoryOperation::Kind;

  struct Session {
    HistoryIndex current = kInitialValues;  ///< whose lines are being read; the initial values: none yet
    bool ended = false;                     ///< whether `current` has its outcome
    std::unordered_set<std::int64_t> seen;
  };

  void expect(bool holds, const char* otherwise) const {
    if (holds) return;
    throw UsageError({"read the history", history_.files.back() + ":" + std::to_string(line_), otherwise,
                      "docs/kv_histories.md has the format"});
  }

  /// The number that `rest` begins with, and the character after it, are taken off `rest`.
  template <class Number>
  Number number(std::string_view& rest, char after) const {
    Number number{};
    const char* end = rest.data() + rest.size();
    const auto [stop, error] = std::from_chars(rest.data(), end, number);
    expect(
        error == std::errc{} && stop != end && *stop == after,
        "it is none of w(key,value,session,transaction), r(key,value,session,transaction), a(session,transaction) and "
        "u(session,transaction) in unsigned numbers of 64 bits");
    rest.remove_prefix(static_cast<std::size_t>(stop + 1 - rest.data()));
    return number;
  }

  void take(std::string_view line) {
    const char kind = line.size() < 2 || line[1] != '(' ? '\0' : line[0];
    switch (kind) {
      case 'r': return take_operation(Kind::read, line.substr(2));
      case 'w': return take_operation(Kind::write, line.substr(2));
      case 'a': return take_outcome(Outcome::aborted, line.substr(2));
      case 'u': return take_outcome(Outcome::unknown, line.substr(2));
      default: expect(false, "it begins with none of w(, r(, a( and u(");
    }
  }

  void take_operation(Kind kind, std::string_view rest) {
    const auto key = number<std::uint64_t>(rest, ',');
    const auto value = number<std::uint64_t>(rest, ',');
    const auto session = number<std::uint64_t>(rest, ',');
    const std::int64_t id = take_id(rest);
    expect(kind == Kind::read || value != 0, "it writes 0, which is what every key holds before the history");
    transaction_of(session, id).operations.push_back({kind, key, value, line_});
  }

  void take_outcome(Outcome outcome, std::string_view rest) {
    const auto number_of_session = number<std::uint64_t>(rest, ',');
    const std::int64_t id = take_id(rest);
    Session& session = sessions_[number_of_session];
    HistoryTransaction& current = history_.transactions[session.current];
    expect(session.current != kInitialValues && current.id == id,
           "the session's last operation before this line is not of this transaction");
    expect(!session.ended, "the transaction has its outcome already");
    current.outcome = outcome;
    session.ended = true;
  }

  std::int64_t take_id(std::string_view& rest) const {
    const auto id = number<std::int64_t>(rest, ')');
    expect(rest.empty(), "something stands behind the bracket");
    expect(id >= kNoHistoryId, "the transaction's number is negative");
    return id;
  }

  HistoryTransaction& transaction_of(std::uint64_t number_of_session, std::int64_t id) {
    if (id == kNoHistoryId) return add(number_of_session, id, Outcome::aborted);
    Session& session = sessions_[number_of_session];
    if (session.current == kInitialValues || history_.transactions[session.current].id != id) {
      expect(session.seen.insert(id).second, "the transaction goes on after the next one of its session has begun");
      session.current = static_cast<HistoryIndex>(history_.transactions.size());
      session.ended = false;
      return add(number_of_session, id, Outcome::committed);
    }
    HistoryTransaction& current = history_.transactions[session.current];
    expect(!session.ended, "the transaction goes on after its outcome");
    expect(current.file + 1 == history_.files.size(), "the transaction goes on from another file");
    return current;
  }

  HistoryTransaction& add(std::uint64_t session, std::int64_t id, Outcome outcome) {
    const auto file = static_cast<std::uint32_t>(history_.files.size() - 1);
    return history_.transactions.emplace_back(HistoryTransaction{session, id, file, outcome, {}});
  }

  History history_{{}, {HistoryTransaction{0, kNoHistoryId, 0, Outcome::committed, {}}}};
  std::unordered_map<std::uint64_t, Session> sessions_;
  std::uint64_t line_ = 0;
};

}  // namespace

History read_history(std::span<const std::string> files) {
  HistoryReader reader;
  for (const std::string& file : files) reader.read(file);
  return reader.finish();
}

}  // namespace farside::kv
