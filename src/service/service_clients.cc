#include "service/service_clients.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "farside/base/error.h"

#include "base/assert.h"
#include "service/service_messages.h"
#include "service/time_limits.h"

namespace farside::service {

namespace {

constexpr std::size_t kMaxUnauthenticated = 128;  // at each listener
constexpr std::size_t kMaxReason = 1024;          // it may quote a name of any length that a client sent

}  // namespace

ServiceClients::ServiceClients(net::EventLoop& loop, const net::Secret& secret, Handler& handler,
                               const std::vector<std::string>& addresses)
    : loop_(loop), secret_(secret), handler_(handler) {
  for (const std::string& address : addresses) listeners_.emplace_back(address);
  loop_.post([this] {
    for (const net::Listener& listener : listeners_) {
      loop_.watch(listener.fd(), EPOLLIN, [this, &listener](std::uint32_t) { accept(listener); });
    }
  });
}

void ServiceClients::say(Number number, const std::string& message) {
  Connected& connected = connected_.at(number);
  assert_that(connected.session.has_value(), "a client that is spoken to is admitted");
  connected.connection->send(connected.session->seal(net::FrameKind::service, message));
}

void ServiceClients::accept(const net::Listener& listener) {
  Fd socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno != EMFILE && errno != ENFILE) return;
    constexpr const char* kWhy = "too many descriptors are open";
    if (refuse_oldest_unauthenticated(nullptr, kWhy)) return;
    log_.warn("cannot accept a client at " + listener.address() + ": " + kWhy);
    loop_.rest(listener.fd());
    return;
  }
  const std::size_t waiting = unauthenticated(&listener);
  assert_that(waiting <= kMaxUnauthenticated, "a bounded number of unauthenticated clients waits at a listener");
  if (waiting == kMaxUnauthenticated) refuse_oldest_unauthenticated(&listener, "too many unauthenticated clients wait");
  net::keep_alive(socket);
  const Number number = next_++;
  auto connection = std::make_unique<net::Connection>(loop_, std::move(socket), [this, number] { serve(number); });
  connected_.emplace(
      number, Connected{.listener = &listener, .connection = std::move(connection), .came = net::SetupClock::now()});
  keep_time();
}

void ServiceClients::serve(Number number) {
  Connected& connected = connected_.at(number);
  const bool open = connected.connection->receive();
  Refusal refusal;
  try {
    refusal = advance(number, connected);
  } catch (const Error& error) {  // it asks for what cannot be, or what it sent is malformed
    refusal = error.what();
  }
  if (refusal) return refuse(number, *refusal);
  if (!open) part(number);
}

ServiceClients::Refusal ServiceClients::advance(Number number, Connected& connected) {
  if (!connected.session) {
    if (Refusal refusal = shake_hands(number, connected)) return refusal;
  }
  while (connected.session) {
    const auto [next, frame] = connected.session->open(connected.connection->received());
    if (next == net::Session::Next::incomplete) break;
    if (next == net::Session::Next::broken) return "its frame is too long or was altered";
    if (frame.kind != net::FrameKind::service) return "its frame is of a kind that clients do not send";
    if (Refusal refusal = handler_.handle(number, frame.fields)) return refusal;
  }
  return {};
}

ServiceClients::Refusal ServiceClients::shake_hands(Number number, Connected& connected) {
  const auto send = [&connected](std::string_view bytes) { connected.connection->send(bytes); };
  if (Refusal refusal = connected.introduction.advance(secret_, connected.connection->received(), send)) return refusal;
  if (!connected.introduction.claim()) return {};
  connected.session.emplace(connected.introduction.key(secret_), net::Session::Side::coordinator, kServiceBodyLimit);
  say(number, handler_.welcome());
  keep_time();
  return {};
}

void ServiceClients::refuse(Number number, const std::string& reason) {
  if (connected_.at(number).session) say(number, handler_.refusal(reason.substr(0, kMaxReason)));
  log_.warn("refused a client: " + reason);
  refused_.add();
  part(number);
}

void ServiceClients::part(Number number) {
  const bool was_admitted = connected_.at(number).session.has_value();
  connected_.erase(number);
  keep_time();
  if (was_admitted) handler_.part(number);
}

bool ServiceClients::is_unauthenticated(const Connected& connected, const net::Listener* at) {
  return !connected.session && (at == nullptr || connected.listener == at);
}

std::size_t ServiceClients::unauthenticated(const net::Listener* at) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(connected_, [at](const auto& each) { return is_unauthenticated(each.second, at); }));
}

bool ServiceClients::refuse_oldest_unauthenticated(const net::Listener* at, const std::string& reason) {
  const auto oldest =
      std::ranges::find_if(connected_, [at](const auto& each) { return is_unauthenticated(each.second, at); });
  if (oldest == connected_.end()) return false;
  refuse(oldest->first, reason);
  return true;
}

// The timer runs only while a client shakes hands.
void ServiceClients::keep_time() {
  const bool wanted = unauthenticated(nullptr) != 0;
  if (wanted == std::exchange(ticking_, wanted)) return;
  loop_.tick(wanted ? service::time_limits::kLook : std::chrono::milliseconds(0), [this] { refuse_the_slow(); });
}

void ServiceClients::refuse_the_slow() {
  const auto is_slow = [now = net::SetupClock::now()](const auto& each) {
    return !each.second.session && now - each.second.came > service::time_limits::kHandshake;
  };
  for (auto slow = std::ranges::find_if(connected_, is_slow); slow != connected_.end();
       slow = std::ranges::find_if(connected_, is_slow)) {
    refuse(slow->first, "it did not finish the handshake in time");
  }
}

}  // namespace farside::service
