#include "team/guests.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "farside/base/error.h"

#include "team/service_messages.h"

namespace farside {

namespace {

constexpr auto kHandshakeLimit = std::chrono::seconds(10);
constexpr auto kLook = std::chrono::milliseconds(500);
constexpr std::size_t kMaxStrangers = 128;  // at each listener
constexpr std::size_t kMaxReason = 1024;    // it may quote a name of any length that a guest sent

}  // namespace

Guests::Guests(EventLoop& loop, const Secret& secret, Host& host, const std::vector<std::string>& addresses)
    : loop_(loop), secret_(secret), host_(host) {
  for (const std::string& address : addresses) listeners_.emplace_back(address);
  loop_.post([this] {
    for (const Listener& listener : listeners_) {
      loop_.watch(listener.fd(), EPOLLIN, [this, &listener](std::uint32_t) { accept(listener); });
    }
  });
}

void Guests::say(Number guest, const std::string& message) {
  Visitor& visitor = visitors_.at(guest);
  visitor.connection->send(visitor.session->seal(FrameKind::service, message));
}

void Guests::accept(const Listener& listener) {
  Fd socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno != EMFILE && errno != ENFILE) return;
    constexpr const char* kWhy = "too many descriptors are open";
    if (refuse_oldest_stranger(nullptr, kWhy)) return;
    log_.warn("cannot accept a client at " + listener.address() + ": " + kWhy);
    return loop_.rest(listener.fd());
  }
  if (strangers(&listener) == kMaxStrangers) refuse_oldest_stranger(&listener, "too many strangers wait");
  keep_alive(socket);
  const Number number = next_++;
  auto connection = std::make_unique<Connection>(loop_, std::move(socket), [this, number] { serve(number); });
  visitors_.emplace(number,
                    Visitor{.listener = &listener, .connection = std::move(connection), .came = SetupClock::now()});
  keep_time();
}

void Guests::serve(Number number) {
  Visitor& visitor = visitors_.at(number);
  const bool open = visitor.connection->receive();
  Refusal refusal;
  try {
    refusal = advance(number, visitor);
  } catch (const Error& error) {  // it asks for what cannot be, or what it sent is malformed
    refusal = error.what();
  }
  if (refusal) return refuse(number, *refusal);
  if (!open) part(number);
}

Guests::Refusal Guests::advance(Number number, Visitor& visitor) {
  if (!visitor.session) {
    if (Refusal refusal = shake_hands(number, visitor)) return refusal;
  }
  while (visitor.session) {
    Frame frame{};
    const auto next = visitor.session->open(visitor.connection->received(), frame);
    if (next == Session::Next::incomplete) break;
    if (next == Session::Next::broken) return "its frame is too long or was altered";
    if (frame.kind != FrameKind::service) return "its frame is of a kind that clients do not send";
    if (Refusal refusal = host_.obey(number, frame.fields)) return refusal;
  }
  return {};
}

Guests::Refusal Guests::shake_hands(Number number, Visitor& visitor) {
  const auto send = [&visitor](std::string_view bytes) { visitor.connection->send(bytes); };
  if (Refusal refusal = visitor.introduction.advance(secret_, visitor.connection->received(), send)) return refusal;
  if (!visitor.introduction.claim()) return {};
  visitor.session.emplace(visitor.introduction.key(secret_), Session::Side::coordinator, kServiceBodyLimit);
  say(number, host_.welcome());
  keep_time();
  return {};
}

void Guests::refuse(Number number, const std::string& reason) {
  if (visitors_.at(number).session) say(number, host_.refusal(reason.substr(0, kMaxReason)));
  log_.warn("refused a client: " + reason);
  part(number);
}

void Guests::part(Number number) {
  const bool was_guest = visitors_.at(number).session.has_value();
  visitors_.erase(number);
  keep_time();
  if (was_guest) host_.part(number);
}

bool Guests::is_stranger(const Visitor& visitor, const Listener* at) {
  return !visitor.session && (at == nullptr || visitor.listener == at);
}

std::size_t Guests::strangers(const Listener* at) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(visitors_, [at](const auto& each) { return is_stranger(each.second, at); }));
}

bool Guests::refuse_oldest_stranger(const Listener* at, const std::string& reason) {
  const auto oldest = std::ranges::find_if(visitors_, [at](const auto& each) { return is_stranger(each.second, at); });
  if (oldest == visitors_.end()) return false;
  refuse(oldest->first, reason);
  return true;
}

// The timer runs only while a client shakes hands.
void Guests::keep_time() {
  const bool wanted = strangers(nullptr) != 0;
  if (wanted == std::exchange(ticking_, wanted)) return;
  loop_.tick(wanted ? kLook : std::chrono::milliseconds(0), [this] { refuse_the_slow(); });
}

void Guests::refuse_the_slow() {
  const auto is_slow = [now = SetupClock::now()](const auto& each) {
    return !each.second.session && now - each.second.came > kHandshakeLimit;
  };
  for (auto slow = std::ranges::find_if(visitors_, is_slow); slow != visitors_.end();
       slow = std::ranges::find_if(visitors_, is_slow)) {
    refuse(slow->first, "it did not finish the handshake in time");
  }
}

}  // namespace farside
