// terminator.h — what becomes of transactions whose client was not heard of between prepare and commit, and whether one
// whose client says nothing any more is committed everywhere (docs/protocols/kv.md, "When a client dies between prepare
// and commit").
//
// It never waits for another server's answer: it asks, and looks for answers in later steps. So two servers may ask
// each other at the same time, as long as each goes on serving.
//
// Guarantee: servers that learn the fate of a transaction learn the same one, and the one that its client was told.
//
// Thread safety: one thread at a time, that of the store.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/protocol/requests.h"
#include "kv/server/logged_store.h"

namespace farside::kv {

class Terminator {
 public:
  /// `servers` reaches all servers. One that is prepared, or committed and not settled, for longer than
  /// `termination_timeout` is asked about; so long, too, an answer is waited for.
  Terminator(const Fabric& fabric, LoggedStore& store, Requests& servers, ServerNumber self,
             Duration termination_timeout);

  /// True if it learnt anything.
  bool step();

 private:
  /// Versions that are prepared and wait for a server that does not answer take this part of the memory, and then no
  /// more.
  static constexpr std::uint64_t kPartForSilent = 8;

  struct Undecided {
    bool is_committed;                  ///< here; whether it is everywhere is to be found out
    std::vector<ServerNumber> missing;  ///< servers that have not said yet that it is so there
    std::uint64_t bytes;                ///< prepared here
  };
  /// The question that another server was last asked, or is to be asked. A server that does not answer does not delay
  /// the questions to others.
  struct Question {
    std::optional<Timestamp> about;  ///< none: it may be asked
    Time since{};
    bool failed = false;            ///< it is not asked again before `termination_timeout` has passed
    bool is_silent = false;         ///< the last one had no answer
    std::uint64_t waiting = 0;      ///< bytes prepared here that its answers decide about
    std::vector<Timestamp> to_ask;  ///< the next one last
  };

  bool take_answers();
  void find_undecided();
  void add(std::vector<UnresolvedTransaction> found, bool are_committed,
           std::map<Timestamp, Undecided>& undecided) const;
  void limit_what_waits();
  void ask();
  void send(ServerNumber server, Question& question);
  [[nodiscard]] std::vector<ServerNumber> others(std::vector<ServerNumber> servers) const;
  void learn(const Timestamp& transaction, ServerNumber from, Fate fate);
  [[nodiscard]] bool is_overdue(const Question& question) const;

  const Fabric& fabric_;
  LoggedStore& store_;
  Requests& servers_;
  const ServerNumber self_;
  const Duration termination_timeout_;
  std::vector<Question> questions_;  ///< by server
  std::map<Timestamp, Undecided> undecided_;
  Time next_look_{};
};

}  // namespace farside::kv
