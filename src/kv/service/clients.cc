#include "kv/service/clients.h"

#include <utility>

#include "farside/base/error.h"

namespace farside::kv {

namespace {

constexpr std::size_t kMostMailboxes = 4096;  // of one client
constexpr Duration kRevokeLimit = std::chrono::seconds(1);

}  // namespace

Clients::Clients(EventLoop& loop, Fabric& fabric, MailboxInbox& inbox, Errands& errands, const Secret& secret,
                 Welcome welcome, PeerId first_peer, const std::vector<std::string>& addresses)
    : loop_(loop),
      fabric_(fabric),
      inbox_(inbox),
      errands_(errands),
      welcome_(std::move(welcome)),
      next_peer_(first_peer),
      guests_(loop, secret, kLinkBodyLimit, *this, addresses) {}

// ---- What they ask for

Guests::Refusal Clients::obey(Guests::Number guest, const std::string& message) {
  const LinkKind kind = kind_of(message);
  const auto found = clients_.find(guest);
  if ((kind == LinkKind::join) == (found != clients_.end())) return "it joins twice, or not first";
  switch (kind) {
    case LinkKind::join: join(guest, decode_text(message)); return {};
    case LinkKind::open:
      if (found->second.mailboxes.size() == kMostMailboxes) return "it has too many mailboxes";
      open(guest, found->second, decode_open(message));
      return {};
    case LinkKind::close:
      if (!close(found->second, decode_close(message))) return "it closes a mailbox that it does not have";
      return {};
    default: return "its message is of a kind that clients do not send";
  }
}

void Clients::join(Guests::Number guest, const std::string& fabric) {
  const PeerId peer = take_peer();
  try {
    fabric_.connect(peer, fabric);
  } catch (const Error&) {
    free_peers_.push_back(peer);
    throw;
  }
  clients_.emplace(guest, Client{peer});
  guests_.say(guest, encode_joined());
}

void Clients::open(Guests::Number guest, Client& client, const OpenRequest& request) {
  Served served{.requests = fabric_.create_region("kv mailbox", welcome_.mailbox.ring_bytes()),
                .replies = fabric_.attach(client.peer, request.rings)};
  (void)served.replies->span(request.offset, welcome_.mailbox.ring_bytes());  // throws unless it is there
  (void)served.replies->word<ControlWord>(request.offset);                    // and aligned
  const MailboxEnd end{.own = served.requests.get(),
                       .own_offset = 0,
                       .other = served.replies.get(),
                       .other_offset = request.offset,
                       .by_memory = fabric_.reaches_by_memory(client.peer)};
  const Number mailbox = next_mailbox_++;
  guests_.say(guest, Opened{mailbox, served.requests->handle()}.encode());
  client.mailboxes.insert(mailbox);
  const auto kept = std::make_shared<Served>(std::move(served));
  errands_.post([this, mailbox, kept, end, waking = request.waking] { begin(mailbox, std::move(*kept), end, waking); });
}

bool Clients::close(Client& client, Number mailbox) {
  if (client.mailboxes.erase(mailbox) == 0) return false;
  errands_.post([this, mailbox] { this->end(mailbox); });
  return true;
}

// Over UCX its access is taken away; on this host it ends with the process that has the memory mapped, and what is
// given back here is nobody else's before that.
void Clients::part(Guests::Number guest) {
  const auto found = clients_.find(guest);
  if (found == clients_.end()) return;  // it never joined
  const auto [peer, mailboxes] = std::move(found->second);
  clients_.erase(found);
  if (fabric_.reaches_by_memory(peer)) {
    fabric_.mark_lost(peer);
  } else if (fabric_.revoke(peer, fabric_.in(kRevokeLimit)) != Outcome::done) {
    log_.warn("the access of a client that went could not be taken away in time");
  }
  errands_.post([this, peer = peer, mailboxes = mailboxes] {
    for (const Number mailbox : mailboxes) end(mailbox);
    loop_.post([this, peer] { free_peers_.push_back(peer); });
  });
}

PeerId Clients::take_peer() {
  if (free_peers_.empty()) return next_peer_++;
  const PeerId peer = free_peers_.back();
  free_peers_.pop_back();
  return peer;
}

// ---- Mailboxes

void Clients::begin(Number mailbox, Served served, const MailboxEnd& end, Waking waking) {
  served.mailbox = inbox_.attach(end, waking);
  served_.emplace(mailbox, std::move(served));
}

void Clients::end(Number mailbox) {
  const auto found = served_.find(mailbox);
  inbox_.detach(found->second.mailbox);
  served_.erase(found);
}

}  // namespace farside::kv
