#include "kv/mailbox/mailbox_inbox.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace farside::kv {

MailboxInbox::Number MailboxInbox::attach(const MailboxEnd& client, Waking waking) {
  connections_.push_back(std::make_unique<Connection>(
      Connection{++attached_, waking, ServedMailbox(fabric_, channel_, client, shape_, waking, timeouts_)}));
  return attached_;
}

void MailboxInbox::detach(Number mailbox) {
  std::erase_if(connections_, [mailbox](const auto& each) { return each->number == mailbox; });
}

// Otherwise a fence or a signal to the next client would fail for it.
void MailboxInbox::forget(PeerId client) {
  (void)channel_.flush(client, fabric_.in({}));  // tells what is lost
  (void)channel_.flush(client, fabric_.in({}));  // and finds that it was told
}

bool MailboxInbox::serve(const Answer& answer, Duration pause) {
  const std::uint64_t bell_before = bell_.rung();
  bool any = false;
  for (const auto& connection : connections_) any = serve(*connection, answer) || any;
  std::erase_if(connections_, [](const auto& each) { return each->ended; });
  if (any || pause <= Duration::zero()) return any;
  bell_.await_more_than(bell_before, pause);
  return false;
}

// A client has at most a ring of requests on the way, so none keeps the others waiting for long.
bool MailboxInbox::serve(Connection& connection, const Answer& answer) const {
  send_held(connection);
  if (!connection.held.empty()) return false;
  for (std::uint32_t taken = 0; taken < shape_.slots && !connection.ended; ++taken) {
    switch (connection.mailbox.poll()) {
      case ServedMailbox::Came::nothing: return taken != 0;
      case ServedMailbox::Came::end: connection.ended = true; break;
      case ServedMailbox::Came::piece: break;
      case ServedMailbox::Came::request: {
        Said said = answer(connection.mailbox.request());
        connection.ended = said.reply.empty();
        if (said.is_held) {
          connection.held.push_back(std::move(said.reply));
        } else if (!connection.ended) {
          assert_that(connection.held.empty(), "no reply comes before one that is held");
          connection.mailbox.reply(std::move(said.reply));
        }
      }
    }
  }
  return true;
}

void MailboxInbox::release(const Revision& revision) {
  for (const auto& connection : connections_) {
    for (Message& reply : connection->held) reply = revision(std::move(reply));
    send_held(*connection);
  }
}

// A client that does not take replies is not served until it does.
void MailboxInbox::send_held(Connection& connection) {
  while (!connection.held.empty() && connection.mailbox.can_reply()) {
    connection.mailbox.reply(std::move(connection.held.front()));
    connection.held.pop_front();
  }
}

// Clients that ring no bell are looked for more often.
Duration MailboxInbox::longest_pause() const {
  const auto is_polled = [](const auto& connection) { return connection->waking == Waking::polled; };
  return std::ranges::any_of(connections_, is_polled) ? kMaxPolledPause : kMaxPause;
}

}  // namespace farside::kv
