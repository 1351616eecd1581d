#include "kv/client/doubts.h"

#include <algorithm>

#include "kv/protocol/messages.h"

namespace farside::kv {

namespace {
constexpr int kPartOfGrace = 100;
}

void Doubts::note_end(std::uint64_t time) {
  caller_.settled = doubts_.empty() ? time : std::min(time, doubts_.front().transaction.time - 1);
}

void Doubts::look_into() {
  if (doubts_.empty() || fabric_.now() < next_look_) return;
  next_look_ = fabric_.now() + grace_;
  const Deadline deadline = fabric_.in(grace_ / kPartOfGrace);
  while (!doubts_.empty() && is_over(doubts_.front(), deadline)) doubts_.pop_front();
  if (!is_full()) return;
  looked_at_ = (looked_at_ + 1) % doubts_.size();
  const auto other = doubts_.begin() + static_cast<std::ptrdiff_t>(looked_at_);
  if (is_over(*other, deadline)) doubts_.erase(other);
}

bool Doubts::is_over(const Doubt& doubt, Deadline deadline) {
  Request request = Request::by(caller_, RequestKind::fate);
  request.timestamp = doubt.transaction;
  const Message message = request.encode();
  std::vector<ServerNumber> asked;
  for (const ServerNumber server : doubt.servers) {
    if (requests_.send(server, message, deadline) == Outcome::done) asked.push_back(server);
  }
  std::size_t committed = 0;
  bool is_given_up = false;
  for (const ServerNumber server : asked) {
    Message bytes;
    const Outcome received = requests_.receive(server, bytes, deadline);
    const auto reply = received == Outcome::done ? Reply::decode(bytes) : std::nullopt;
    if (!reply || reply->kind != RequestKind::fate || reply->answer != Answer::done) continue;
    if (reply->fate == Fate::committed) ++committed;
    if (reply->fate == Fate::aborted) is_given_up = true;
  }
  return is_given_up || committed == doubt.servers.size();
}

}  // namespace farside::kv
