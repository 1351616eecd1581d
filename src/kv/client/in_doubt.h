// in_doubt.h — a session's transactions of which it does not know whether they are committed, or given up, at all
// servers. Up to the first of them it may say that everything is settled.
//
// Noted are those that were sent to all servers which have part in them, a single one included: a server that did not
// answer may do later what it was asked. Of the others no server can think that all have prepared.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/protocol/answer.h"
#include "kv/protocol/caller.h"
#include "kv/protocol/requests.h"
#include "kv/protocol/timestamp.h"

namespace farside::kv {

class InDoubtTransactions {
 public:
  /// `grace`: the servers'; once in so long the server is asked about one, for a small part of it.
  InDoubtTransactions(const Fabric& fabric, Requests& requests, Caller& caller, Duration grace)
      : fabric_(fabric), requests_(requests), caller_(caller), grace_(grace) {}

  void note(const Timestamp& transaction, const std::vector<ServerNumber>& servers);
  /// The session's transactions up to this time have ended, but for what is noted.
  void note_end(std::uint64_t time);
  /// Asks the servers what became of the oldest, if it is time to. By then they know, unless one is away: they ask each
  /// other.
  void look_into();
  /// The server has part in as many as may be.
  [[nodiscard]] bool are_many_at(ServerNumber server) const;
  /// Asks about one of those that the server has part in, if it is time to. Returns whether the server answers.
  [[nodiscard]] bool does_answer(ServerNumber server);

 private:
  static constexpr std::size_t kMax = 1024;

  struct Transaction {
    Timestamp timestamp;
    std::vector<ServerNumber> servers;
  };
  struct Server {
    std::size_t in_doubt = 0;  ///< that it has part in
    Time next_look{};
  };
  using Fates = std::vector<std::optional<Fate>>;  ///< by the transaction's servers; none: no answer

  [[nodiscard]] Fates ask_about(const Transaction& entry);
  [[nodiscard]] static bool is_over(const Fates& fates);
  void remove(const std::deque<Transaction>::iterator& entry);

  const Fabric& fabric_;
  Requests& requests_;
  Caller& caller_;
  const Duration grace_;
  Time next_look_{};
  std::deque<Transaction> in_doubt_;  // oldest first
  std::map<ServerNumber, Server> servers_;
};

}  // namespace farside::kv
