#include "kv/service/clients.h"

#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

namespace {

using service::ServiceClients;

constexpr std::size_t kMaxMailboxes = 4096;  // of one client

}  // namespace

Clients::Clients(net::EventLoop& loop, Fabric& fabric, MailboxInbox& inbox, TaskQueue& tasks, const net::Secret& secret,
                 Welcome welcome, service::AddressesNow servers, service::AddressesNow standbys, PeerId first_peer,
                 const std::vector<std::string>& addresses, const StandbySide* standby)
    : loop_(loop),
      fabric_(fabric),
      inbox_(inbox),
      tasks_(tasks),
      welcome_(std::move(welcome)),
      servers_(std::move(servers)),
      standbys_(std::move(standbys)),
      standby_(standby),
      peers_(first_peer),
      connected_(loop, secret, *this, addresses) {}

std::string Clients::welcome() {
  Welcome now = welcome_;
  now.waits = now.waits && !has_primary_;
  now.servers = servers_();
  if (standbys_) now.standbys = standbys_();
  return now.encode();
}

// ---- What they ask for

ServiceClients::Refusal Clients::handle(ServiceClients::Number number, const std::string& message) {
  const LinkKind kind = kLinkMessages.kind_of(message);
  const auto found = clients_.find(number);
  if ((kind == LinkKind::join) == (found != clients_.end())) return "it joins twice, or not first";
  switch (kind) {
    case LinkKind::join: join(number, decode_join(message)); return {};
    case LinkKind::ship: return ship(number, found->second, kLinkMessages.number_of<std::uint16_t>(message));
    case LinkKind::leave: note_primary(found->second, StandbySide::PrimaryIs::leaving); return {};
    case LinkKind::open:
      if (found->second.mailboxes.size() == kMaxMailboxes) return "it has too many mailboxes";
      open(number, found->second, decode_open(message));
      return {};
    case LinkKind::close:
      if (!close(found->second, kLinkMessages.number_of<Number>(message)))
        return "it closes a mailbox that it does not have";
      return {};
    default: return "its message is of a kind that clients do not send";
  }
}

void Clients::join(ServiceClients::Number number, const Join& join) {
  const PeerId peer = peers_.connect(fabric_, join.fabric);
  clients_.emplace(number, Client{peer, fabric_.life(peer)});
  if (standby_ != nullptr) return join_standby(number, peer, join.told);
  connected_.say(number, encode_joined(0));
}

// It has joined when this server would tell it that it serves.
void Clients::join_standby(ServiceClients::Number number, PeerId peer, const std::string& told) {
  std::shared_ptr<std::unique_ptr<RemoteRegion>> region;  // shared, for tasks are copied
  if (!told.empty()) {
    region = std::make_shared<std::unique_ptr<RemoteRegion>>(fabric_.attach(peer, told));
    (void)(*region)->word<ControlWord>(0);  // throws unless it is there
  }
  tasks_.post([this, number, region] {
    if (region != nullptr) {
      standby_->words.add((*region)->word<ControlWord>(0));
      told_.emplace(number, std::move(*region));
    }
    loop_.post([this, number, epoch = standby_->epoch()] {
      if (clients_.contains(number)) connected_.say(number, encode_joined(epoch));
    });
  });
}

ServiceClients::Refusal Clients::ship(ServiceClients::Number number, Client& client, std::uint16_t incarnation) {
  if (standby_ == nullptr || has_primary_ || welcome_.goes_on)
    return "it ships its changes to a server that follows no primary, or another";
  has_primary_ = true;
  client.is_primary = incarnation;
  note_primary(client, StandbySide::PrimaryIs::shipping);
  connected_.say(number, encode_shipping(standby_->ring.handle()));
  return {};
}

void Clients::note_primary(const Client& client, StandbySide::PrimaryIs what) {
  if (!client.is_primary) return;
  assert_that(standby_ != nullptr, "only a standby has a primary");
  tasks_.post([this, primary = StandbySide::Primary{client.peer, *client.is_primary}, what] {
    standby_->note_primary(primary, what);
  });
}

void Clients::open(ServiceClients::Number number, Client& client, const OpenRequest& request) {
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
  connected_.say(number, Opened{mailbox, served.requests->handle()}.encode());
  client.mailboxes.insert(mailbox);
  const auto kept = std::make_shared<Served>(std::move(served));
  tasks_.post([this, mailbox, kept, end, waking = request.waking] { begin(mailbox, std::move(*kept), end, waking); });
}

bool Clients::close(Client& client, Number mailbox) {
  if (client.mailboxes.erase(mailbox) == 0) return false;
  tasks_.post([this, mailbox] { this->end(mailbox); });
  return true;
}

// Over UCX its access is taken away; on this host it ends with the process that has the memory mapped, and memory that
// is given back here is not used again before that. A primary that is out of reach for a while goes on afterwards,
// unless it is told to be dead.
void Clients::part(ServiceClients::Number number) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;  // it never joined
  const Client client = std::move(found->second);
  clients_.erase(found);
  if (client.is_primary) {
    note_primary(client, StandbySide::PrimaryIs::gone);
  } else if (fabric_.reaches_by_memory(client.peer)) {
    fabric_.mark_lost(client.peer, client.life);
  } else if (fabric_.revoke(client.peer, client.life, fabric_.in(time_limits::kRevoke)) != Outcome::done) {
    log_.warn("the access of a client that went could not be taken away in time");
  }
  tasks_.post([this, number, client] {
    for (const Number mailbox : client.mailboxes) end(mailbox);
    if (const auto told = told_.find(number); told != told_.end()) {
      standby_->words.remove(*told->second);
      told_.erase(told);
    }
    if (client.is_primary) return;  // whose access may have to be taken away under this number
    inbox_.forget(client.peer);
    loop_.post([this, peer = client.peer] { peers_.give_back(peer); });
  });
}

// ---- Mailboxes

void Clients::begin(Number mailbox, Served served, const MailboxEnd& end, Waking waking) {
  served.mailbox = inbox_.attach(end, waking);
  served_.emplace(mailbox, std::move(served));
}

void Clients::end(Number mailbox) {
  const auto found = served_.find(mailbox);
  assert_that(found != served_.end(), "a mailbox ends once, after it began");
  inbox_.detach(found->second.mailbox);
  served_.erase(found);
}

}  // namespace farside::kv
