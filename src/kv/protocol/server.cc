#include "kv/protocol/server.h"

#include <algorithm>
#include <utility>

namespace farside::kv {

void Server::attach(const MailboxEnd& client, Waking waking) {
  connections_.push_back(
      std::make_unique<Connection>(Connection{waking, ServedMailbox(fabric_, channel_, client, shape_, waking)}));
}

bool Server::serve_once() {
  bool any = false;
  for (const auto& connection : connections_) any = serve(*connection) || any;
  std::erase_if(connections_, [](const auto& each) { return each->ended; });
  any = (terminator_ != nullptr && terminator_->step()) || any;
  return store_.reclaim(kReclaimedAtOnce) != 0 || any;
}

// A client has at most a ring of requests on the way, so none keeps the others waiting for long.
bool Server::serve(Connection& connection) {
  for (std::uint32_t taken = 0; taken < shape_.slots && !connection.ended; ++taken) {
    switch (connection.mailbox.poll()) {
      case ServedMailbox::Came::nothing: return taken != 0;
      case ServedMailbox::Came::end: connection.ended = true; break;
      case ServedMailbox::Came::piece: break;
      case ServedMailbox::Came::request: answer(connection); break;
    }
  }
  return true;
}

void Server::answer(Connection& connection) {
  Message reply = handler_.answer(connection.mailbox.request());
  connection.ended = reply.empty();
  if (!reply.empty()) connection.mailbox.reply(std::move(reply));
}

void Server::serve_until(const std::function<bool()>& ended) {
  Duration pause = kFirstPause;
  while (!ended()) {
    const std::uint64_t bell_before = bell_.load();
    if (serve_once()) {
      pause = kFirstPause;
      continue;
    }
    const auto is_polled = [](const auto& connection) { return connection->waking == Waking::polled; };
    const bool polls = std::ranges::any_of(connections_, is_polled);
    sleep(bell_before, pause);
    pause = std::min(2 * pause, polls ? kLongestPolledPause : kLongestPause);
  }
}

void Server::sleep(std::uint64_t bell_before, Duration pause) {
  const auto rang = [bell_before](std::uint64_t bell) { return bell != bell_before; };
  (void)channel_.wait_until(bells_, bell_, rang, fabric_.in(pause));  // whatever ended it, there may be something
}

}  // namespace farside::kv
