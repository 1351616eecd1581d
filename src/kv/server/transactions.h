// transactions.h — which transactions are prepared at a server, and how the others ended, as long as a server may ask.
// It knows which versions each of them wrote.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "kv/protocol/timestamp.h"
#include "kv/server/store.h"
#include "kv/server/versions.h"

namespace farside::kv {

/// One that is prepared here.
struct PreparedHere {
  Time since;
  std::vector<ServerNumber> servers;
  std::vector<WrittenVersion> written;  ///< here
};

class Transactions {
 public:
  /// How many ended ones of a session are kept, if no server needs to ask about the rest.
  static constexpr std::size_t kMaxEnded = 1024;

  enum class Standing : std::uint8_t {
    unknown,
    prepared,
    committed,
    barred,  ///< given up, or settled and forgotten: it is not prepared any more
  };

  [[nodiscard]] Standing standing(const Timestamp& transaction) const;
  /// Its session is, and it is prepared or has ended.
  [[nodiscard]] bool is_known(const Timestamp& transaction) const;
  void add(const Timestamp& transaction, PreparedHere prepared) {
    const bool is_new = prepared_.emplace(transaction, std::move(prepared)).second;
    assert_that(is_new, "a transaction is prepared once");
  }
  /// One that is prepared and committed at once, and has part in no other server.
  void add_committed(const Timestamp& transaction, const WrittenVersion& written) {
    remember(transaction, {Standing::committed, true, {written}});
  }
  /// Commits one that is prepared, from `now` on. Returns what it wrote.
  std::vector<WrittenVersion> commit(const Timestamp& transaction, Time now);
  /// Records that one that is committed is so at all servers. Returns what it wrote; nothing: that was known.
  std::vector<WrittenVersion> note_everywhere(const Timestamp& transaction);
  /// Bars one that is not committed. Returns what was prepared for it.
  std::vector<WrittenVersion> bar(const Timestamp& transaction);

  struct Settled {
    Timestamp timestamp;
    std::vector<WrittenVersion> written;
  };
  /// Forgets the session's transactions up to this one. Those of them that were committed.
  std::vector<Settled> settle(const Timestamp& up_to);
  /// The bits that marks have for one that is committed: kEverywhere, kSettled.
  [[nodiscard]] std::uint64_t settled_bits(const Timestamp& transaction) const;
  [[nodiscard]] std::vector<UnresolvedTransaction> undecided(Time before) const;
  [[nodiscard]] std::vector<UnresolvedTransaction> unsettled(Time before);
  /// Bars the session's transactions up to this one, but for those that are known.
  void bar_unknown(const Timestamp& up_to);
  /// Up to this time all transactions of sessions of which nothing is known are barred.
  [[nodiscard]] std::uint64_t forgotten() const noexcept { return forgotten_; }
  void forget(std::uint64_t up_to) { forgotten_ = std::max(forgotten_, up_to); }
  /// Returns the writes of one that is prepared; none: it is not.
  [[nodiscard]] std::vector<WrittenVersion> written_by(const Timestamp& transaction) const;
  [[nodiscard]] std::vector<EndedTransactions> ended() const;
  /// One more version that it wrote, if it was committed and not settled since.
  void note_written(const Timestamp& transaction, const WrittenVersion& written);

 private:
  struct Ended {
    Standing standing;
    bool everywhere = true;                 ///< no server needs to ask
    std::vector<WrittenVersion> written{};  ///< when committed
    std::vector<ServerNumber> servers{};    ///< when committed, and perhaps not everywhere
  };
  struct Session {
    std::uint64_t settled = 0;
    std::uint64_t floor = 0;               ///< up to there all are barred, but for those that are known
    std::map<std::uint64_t, Ended> ended;  ///< by time, those after `settled`
    std::size_t most_ended = kMaxEnded;    ///< beyond it, those that no server needs to ask about are forgotten
  };
  static constexpr std::size_t kLeastSessions = 1024;

  PreparedHere end(const Timestamp& transaction);
  void remember(const Timestamp& transaction, Ended ended);
  /// True if no server need be asked whether it is committed everywhere.
  [[nodiscard]] bool is_over(const Timestamp& committed);
  [[nodiscard]] Ended* find_ended(const Timestamp& transaction);
  [[nodiscard]] Session& session_of(std::uint64_t number);
  static void forget_ended(Session& session);
  void forget_sessions();

  std::unordered_map<Timestamp, PreparedHere, TimestampHash> prepared_;
  std::unordered_map<std::uint64_t, Session> sessions_;
  std::size_t most_sessions_ = kLeastSessions;  // beyond it, those that no server needs to ask about are forgotten
  std::uint64_t forgotten_ = 0;
  std::deque<std::pair<Time, Timestamp>> lately_committed_;  // at several servers
  std::vector<Timestamp> overdue_;                           // of them
};

}  // namespace farside::kv
