#include "kv/service/clients.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::kv {

namespace {

constexpr auto kHandshakeLimit = std::chrono::seconds(10);
constexpr auto kLook = std::chrono::milliseconds(500);
constexpr std::size_t kMostStrangers = 128;
constexpr std::size_t kMostMailboxes = 4096;  // of one client
constexpr auto kPauseAfterFailedAccept = std::chrono::milliseconds(20);
constexpr Duration kRevokeLimit = std::chrono::seconds(1);

// What a server that was killed left there is removed: the pool's lock says that it is nobody's.
Fd listen_alone_on(const std::string& address) {
  if (!is_host_local(address)) return listen_on(address);
  if (::unlink(address.c_str()) != 0 && errno != ENOENT) throw errno_error("remove the old socket", address);
  Fd socket = listen_on(address);
  if (::chmod(address.c_str(), S_IRUSR | S_IWUSR) != 0) throw errno_error("close to others the socket", address);
  return socket;
}

}  // namespace

Clients::Clients(EventLoop& loop, Fabric& fabric, MailboxInbox& inbox, Errands& errands, const Secret& secret,
                 Welcome welcome, PeerId first_peer, const std::vector<std::string>& addresses)
    : loop_(loop),
      fabric_(fabric),
      inbox_(inbox),
      errands_(errands),
      secret_(secret),
      welcome_(std::move(welcome)),
      next_peer_(first_peer) {
  for (const std::string& address : addresses) listeners_.push_back({address, listen_alone_on(address)});
  loop_.post([this] {
    for (const Listener& listener : listeners_) {
      loop_.watch(listener.socket.get(), EPOLLIN, [this, &listener](std::uint32_t) { accept(listener); });
    }
  });
}

Clients::~Clients() {
  for (const Listener& listener : listeners_) {
    if (is_host_local(listener.address)) ::unlink(listener.address.c_str());
  }
}

// ---- Who comes

void Clients::accept(const Listener& listener) {
  Fd socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno != EMFILE && errno != ENFILE) return;
    log_.warn("cannot accept a client at " + listener.address + ": too many descriptors are open");
    std::this_thread::sleep_for(kPauseAfterFailedAccept);  // the listener stays readable: else this would spin
    return;
  }
  if (strangers() == kMostStrangers) {
    log_.warn("turned a client away from " + listener.address + ": too many strangers wait");
    return;
  }
  keep_alive(socket);
  const Number number = next_client_++;
  auto connection = std::make_unique<Connection>(loop_, std::move(socket), [this, number] { serve(number); });
  clients_.emplace(number, Client{.connection = std::move(connection), .came = SetupClock::now()});
  keep_time();
}

void Clients::serve(Number number) {
  Client& client = clients_.at(number);
  const bool open = client.connection->receive();
  Refusal refusal;
  try {
    refusal = advance(client);
  } catch (const Error& error) {  // it asks for what cannot be, or what it sent is malformed
    refusal = error.what();
  }
  if (refusal) return refuse(number, *refusal);
  if (!open) part(number);
}

Clients::Refusal Clients::advance(Client& client) {
  if (!client.session) {
    if (Refusal refusal = shake_hands(client)) return refusal;
  }
  while (client.session) {
    Frame frame{};
    const auto next = client.session->open(client.connection->received(), frame);
    if (next == farside::Session::Next::incomplete) break;
    if (next == farside::Session::Next::broken) return "its frame is too long or was altered";
    if (frame.kind != FrameKind::service) return "its frame is of a kind that clients do not send";
    if (Refusal refusal = obey(client, frame.fields)) return refusal;
  }
  return {};
}

Clients::Refusal Clients::shake_hands(Client& client) {
  const auto send = [&client](std::string_view bytes) { client.connection->send(bytes); };
  if (Refusal refusal = client.introduction.advance(secret_, client.connection->received(), send)) return refusal;
  if (!client.introduction.claim()) return {};
  client.session.emplace(client.introduction.key(secret_), farside::Session::Side::coordinator, kLinkBodyLimit);
  say(client, welcome_.encode());
  keep_time();
  return {};
}

Clients::Refusal Clients::obey(Client& client, const std::string& message) {
  const LinkKind kind = kind_of(message);
  if ((kind == LinkKind::join) == client.peer.has_value()) return "it joins twice, or not first";
  switch (kind) {
    case LinkKind::join: join(client, decode_text(message)); return {};
    case LinkKind::open:
      if (client.mailboxes.size() == kMostMailboxes) return "it has too many mailboxes";
      open(client, decode_open(message));
      return {};
    case LinkKind::close:
      if (!close(client, decode_close(message))) return "it closes a mailbox that it does not have";
      return {};
    default: return "its message is of a kind that clients do not send";
  }
}

void Clients::join(Client& client, const std::string& fabric) {
  const PeerId peer = take_peer();
  try {
    fabric_.connect(peer, fabric);
  } catch (const Error&) {
    free_peers_.push_back(peer);
    throw;
  }
  client.peer = peer;
  say(client, encode_joined());
}

void Clients::open(Client& client, const OpenRequest& request) {
  Served served{.requests = fabric_.create_region("kv mailbox", welcome_.mailbox.ring_bytes()),
                .replies = fabric_.attach(*client.peer, request.rings)};
  (void)served.replies->span(request.offset, welcome_.mailbox.ring_bytes());  // throws unless it is there
  (void)served.replies->word<ControlWord>(request.offset);                    // and aligned
  const MailboxEnd end{.own = served.requests.get(),
                       .own_offset = 0,
                       .other = served.replies.get(),
                       .other_offset = request.offset,
                       .by_memory = fabric_.reaches_by_memory(*client.peer)};
  const Number mailbox = next_mailbox_++;
  say(client, Opened{mailbox, served.requests->handle()}.encode());
  client.mailboxes.insert(mailbox);
  const auto kept = std::make_shared<Served>(std::move(served));
  errands_.post([this, mailbox, kept, end, waking = request.waking] { begin(mailbox, std::move(*kept), end, waking); });
}

bool Clients::close(Client& client, Number mailbox) {
  if (client.mailboxes.erase(mailbox) == 0) return false;
  errands_.post([this, mailbox] { this->end(mailbox); });
  return true;
}

void Clients::say(Client& client, const std::string& message) {
  client.connection->send(client.session->seal(FrameKind::service, message));
}

// ---- Who goes

void Clients::refuse(Number number, const std::string& reason) {
  Client& client = clients_.at(number);
  if (client.session) say(client, encode_refused(reason));
  log_.warn("refused a client: " + reason);
  part(number);
}

// Over UCX its access is taken away; on this host it ends with the process that has the memory mapped, and what is
// given back here is nobody else's before that.
void Clients::part(Number number) {
  Client& client = clients_.at(number);
  if (client.peer) {
    const PeerId peer = *client.peer;
    if (fabric_.reaches_by_memory(peer)) {
      fabric_.mark_lost(peer);
    } else if (fabric_.revoke(peer, fabric_.in(kRevokeLimit)) != Outcome::done) {
      log_.warn("the access of a client that went could not be taken away in time");
    }
    errands_.post([this, peer, mailboxes = std::move(client.mailboxes)] {
      for (const Number mailbox : mailboxes) end(mailbox);
      loop_.post([this, peer] { free_peers_.push_back(peer); });
    });
  }
  clients_.erase(number);
  keep_time();
}

PeerId Clients::take_peer() {
  if (free_peers_.empty()) return next_peer_++;
  const PeerId peer = free_peers_.back();
  free_peers_.pop_back();
  return peer;
}

std::size_t Clients::strangers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(clients_, [](const auto& each) { return !each.second.session; }));
}

// The timer runs only while somebody shakes hands.
void Clients::keep_time() {
  const bool wanted = strangers() != 0;
  if (wanted == std::exchange(ticking_, wanted)) return;
  loop_.tick(wanted ? kLook : std::chrono::milliseconds(0), [this] { refuse_the_slow(); });
}

void Clients::refuse_the_slow() {
  const auto is_slow = [now = SetupClock::now()](const auto& each) {
    return !each.second.session && now - each.second.came > kHandshakeLimit;
  };
  for (auto slow = std::ranges::find_if(clients_, is_slow); slow != clients_.end();
       slow = std::ranges::find_if(clients_, is_slow)) {
    refuse(slow->first, "it did not finish the handshake in time");
  }
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
