// server.h — a server at work: answers the requests of its inbox, and between them does what else is due.
//
// Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "kv/protocol/inbox.h"

namespace farside::kv {

class Server {
 public:
  /// Something that is due now and then, a little at a time. True if there was anything to do.
  using Chore = std::function<bool()>;

  /// `inbox` outlives this.
  Server(Inbox& inbox, Inbox::Answer answer) : inbox_(inbox), answer_(std::move(answer)) {}

  void add_chore(Chore chore) { chores_.push_back(std::move(chore)); }

  /// Serves, and sleeps while nothing comes, until `ended` holds, which is asked at least every 20 ms.
  void serve_until(const std::function<bool()>& ended);

 private:
  /// The first pause is this part of the longest one: a server that is not woken looks with exponential backoff.
  static constexpr int kFirstPauseIn = 50;

  Inbox& inbox_;
  Inbox::Answer answer_;
  std::vector<Chore> chores_;
};

}  // namespace farside::kv
