// doubts.h — a session's transactions of which it does not know whether they are committed, or given up, at all
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
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/protocol/caller.h"
#include "kv/protocol/requests.h"
#include "kv/protocol/timestamp.h"

namespace farside::kv {

class Doubts {
 public:
  /// `grace`: the servers'; once in so long a doubt is looked into, for a small part of it.
  Doubts(const Fabric& fabric, Requests& requests, Caller& caller, Duration grace)
      : fabric_(fabric), requests_(requests), caller_(caller), grace_(grace) {}

  /// There are as many as may be: a put that a silent server has part in could leave one more.
  [[nodiscard]] bool is_full() const { return doubts_.size() >= kMax; }
  void note(const Timestamp& transaction, const std::vector<ServerNumber>& servers) {
    doubts_.push_back({transaction, servers});
  }
  /// The session's transactions up to this time have ended, but for what is noted.
  void note_end(std::uint64_t time);
  /// Asks the servers what became of the oldest, if it is time to. By then they know, unless one is away: they ask each
  /// other. When this is full, asks of another one, too, whose servers may be there.
  void look_into();

 private:
  static constexpr std::size_t kMax = 1024;

  struct Doubt {
    Timestamp transaction;
    std::vector<ServerNumber> servers;
  };
  [[nodiscard]] bool is_over(const Doubt& doubt, Deadline deadline);

  const Fabric& fabric_;
  Requests& requests_;
  Caller& caller_;
  const Duration grace_;
  Time next_look_{};
  std::deque<Doubt> doubts_;  // oldest first
  std::size_t looked_at_ = 0;
};

}  // namespace farside::kv
