#include "net/introduction.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "farside/base/error.h"

#include "base/backoff.h"
#include "net/time_limits.h"

namespace farside::net {

namespace {

template <class Message>
Message read_message(const Fd& socket, SetupClock::time_point deadline) {
  Message message;
  std::memcpy(&message, read_exactly(socket, sizeof message, deadline).data(), sizeof message);
  return message;
}

// Takes a message of a fixed size from the front of `bytes`, once it is whole.
template <class Message>
std::optional<Message> take(std::string& bytes) {
  static_assert(std::has_unique_object_representations_v<Message>);
  if (bytes.size() < sizeof(Message)) return std::nullopt;
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  bytes.erase(0, sizeof message);
  return message;
}

[[noreturn]] void fail(const Introduced& what, const std::string& why, const std::string& remedy) {
  throw Error({what.tried, what.address, why, remedy});
}

}  // namespace

Session shake_hands(const Fd& socket, const Introduced& what, const Secret& secret, std::uint32_t rank,
                    std::size_t body_limit, SetupClock::time_point deadline, ClaimPurpose purpose) {
  const Hello hello = make_hello();
  write_all(socket, wire_bytes(hello), deadline);
  const auto challenge = read_message<Challenge>(socket, deadline);
  if (!challenge.preamble.is_farside()) fail(what, "it does not speak farside", "check the address");
  if (challenge.preamble.protocol != kTeamProtocol) {
    throw UsageError({what.tried, what.address,
                      "it speaks protocol " + std::to_string(challenge.preamble.protocol) + " and this program " +
                          std::to_string(kTeamProtocol),
                      "use one version of farside everywhere"});
  }
  if (!proves_coordinator(secret, hello, challenge)) {
    fail(what, "it does not know this pool's secret", "use the secret file of that pool");
  }
  const Claim claim = make_claim(secret, hello, challenge, rank, purpose);
  write_all(socket, wire_bytes(claim), deadline);
  return {session_key(secret, hello, challenge, claim), Session::Side::member, body_limit};
}

Acquaintance introduce(const Introduced& what, const Secret& secret, std::uint32_t rank, std::size_t body_limit,
                       SetupClock::time_point deadline) {
  for (Backoff backoff(net::time_limits::kFirstPauseInCrowd, net::time_limits::kMaxPauseInCrowd);;) {
    const auto pause = backoff.next();
    try {
      Fd socket = connect_to(what.address, deadline);
      Session session = shake_hands(socket, what, secret, rank, body_limit, deadline);
      Frame first = read_frame(socket, what, session, body_limit, deadline);
      return {std::move(socket), session, std::move(first)};
    } catch (const ClosedError&) {
      if (SetupClock::now() + pause > deadline) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

Frame read_frame(const Fd& socket, const Introduced& what, Session& session, std::size_t body_limit,
                 SetupClock::time_point deadline) {
  std::string bytes = read_exactly(socket, kFrameHeader, deadline);
  if (body_bytes(bytes) <= body_limit) bytes += read_exactly(socket, body_bytes(bytes), deadline);
  Session::Opened opened = session.open(bytes);
  if (opened.next != Session::Next::frame) {
    fail(what, "its answer was altered on the way", "check for a proxy or an attacker on the path");
  }
  return std::move(opened.frame);
}

Introduction::Refusal Introduction::advance(const Secret& secret, std::string& received,
                                            const std::function<void(std::string_view)>& send) {
  if (!refusal_) refusal_ = take_messages(secret, received, send);
  return refusal_;
}

Introduction::Refusal Introduction::take_messages(const Secret& secret, std::string& received,
                                                  const std::function<void(std::string_view)>& send) {
  if (!hello_) {
    hello_ = take<Hello>(received);
    if (!hello_) return {};
    if (!hello_->preamble.is_farside()) return "it does not speak farside";
    challenge_ = make_challenge(secret, *hello_);
    send(wire_bytes(challenge_));
    if (hello_->preamble.protocol != kTeamProtocol) {
      return "it speaks protocol " + std::to_string(hello_->preamble.protocol);
    }
  }
  const auto claim = take<Claim>(received);
  if (!claim) return {};
  if (!proves_member(secret, *hello_, challenge_, *claim)) return "it does not know the pool's secret";
  claim_ = claim;
  return {};
}

}  // namespace farside::net
