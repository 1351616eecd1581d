// terminator.h — what becomes of transactions whose client was not heard of between prepare and commit
// (docs/protocols/kv.md, "When a client dies between prepare and commit").
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
#include "kv/protocol/store.h"

namespace farside::kv {

class Terminator {
 public:
  /// `servers` reaches all servers. One that is prepared for longer than `patience` is asked about; so long, too, an
  /// answer is waited for.
  Terminator(const Fabric& fabric, Store& store, Requests& servers, ServerNumber self, Duration patience);

  /// True if it learnt anything.
  bool step();

 private:
  static constexpr std::size_t kMostAtOnce = 64;  ///< transactions
  /// For posting a question over a link that is up.
  static constexpr Duration kStep = std::chrono::milliseconds(10);

  /// What another server was last asked.
  struct Question {
    std::optional<Timestamp> about;  ///< none: it may be asked
    Time since{};
    bool failed = false;  ///< it is not asked again before `patience` has passed
  };

  bool take_answers();
  void find_doubtful();
  void ask();
  void send(ServerNumber server, const Timestamp& about);
  [[nodiscard]] std::vector<ServerNumber> others(std::vector<ServerNumber> servers) const;
  void learn(const Timestamp& transaction, ServerNumber from, Store::Fate fate);
  [[nodiscard]] bool is_overdue(const Question& question) const;

  const Fabric& fabric_;
  Store& store_;
  Requests& servers_;
  const ServerNumber self_;
  const Duration patience_;
  std::vector<Question> questions_;                           ///< by server
  std::map<Timestamp, std::vector<ServerNumber>> undecided_;  ///< who has not said yet that it is prepared there
  Time next_look_{};
};

}  // namespace farside::kv
