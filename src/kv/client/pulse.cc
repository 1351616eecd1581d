#include "kv/client/pulse.h"

#include "kv/protocol/messages.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

std::vector<bool> Pulse::hear() {
  std::vector<bool> answered(requests_.servers());
  for (ServerNumber server = 0; server < requests_.servers(); ++server) answered[server] = has_answered(server);
  return answered;
}

// A server that is lost says so at once, which is an answer.
bool Pulse::has_answered(ServerNumber server) {
  if (!asked_[server]) {
    const Outcome sent =
        requests_.send(server, Request::by(caller_, RequestKind::use).encode(), fabric_.in(time_limits::kPost));
    asked_[server] = sent == Outcome::done;
    return sent == Outcome::peer_lost;
  }
  if (!requests_.has_reply(server)) return false;
  asked_[server] = false;
  const Outcome received = requests_.receive(server, {fabric_.now()}).status;
  return received == Outcome::done || received == Outcome::peer_lost;
}

}  // namespace farside::kv
