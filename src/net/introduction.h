// introduction.h — the handshake (handshake.h) on a socket, from either side, and the frames right after it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "farside/base/fd.h"

#include "base/assert.h"
#include "net/handshake.h"
#include "net/session.h"
#include "net/socket.h"

namespace farside::net {

/// The names that a member's errors contain.
struct Introduced {
  std::string tried;  ///< "join the team at"
  std::string address;
};

/// The member's side, on a connected socket. Throws Error when the other side does not know the secret or speaks
/// another protocol, and when the deadline passes.
[[nodiscard]] Session shake_hands(const Fd& socket, const Introduced& what, const Secret& secret, std::uint32_t rank,
                                  std::size_t body_limit, SetupClock::time_point deadline,
                                  ClaimPurpose purpose = ClaimPurpose::take_seat);

/// A connection to a process that knows the secret, after its first frame.
struct Acquaintance {
  Fd socket;
  Session session;
  Frame first;
};

/// Connects, shakes hands and reads the first frame. Throws Error as shake_hands and read_frame do. A listener closes
/// the connections of those that came first when too many wait to be heard: then this connects anew until `deadline`.
[[nodiscard]] Acquaintance introduce(const Introduced& what, const Secret& secret, std::uint32_t rank,
                                     std::size_t body_limit, SetupClock::time_point deadline);

/// The next frame, of at most `body_limit` bytes. Throws Error when it was altered or does not come.
[[nodiscard]] Frame read_frame(const Fd& socket, const Introduced& what, Session& session, std::size_t body_limit,
                               SetupClock::time_point deadline);

/// The other side's, message by message as they come.
class Introduction {
 public:
  /// Why an unauthenticated peer is sent away; none while it behaves.
  using Refusal = std::optional<std::string>;

  /// Takes what it can from the front of `received`, and answers through `send`. A refusal is for good: what arrives
  /// before the connection is closed changes nothing.
  Refusal advance(const Secret& secret, std::string& received, const std::function<void(std::string_view)>& send);
  /// The claim that was proven: none until then.
  [[nodiscard]] const std::optional<Claim>& claim() const noexcept { return claim_; }
  /// For the frames that follow a claim.
  [[nodiscard]] Digest key(const Secret& secret) const {
    assert_that(hello_ && claim_, "a session has a key once a claim is proven");
    return session_key(secret, *hello_, challenge_, *claim_);
  }

 private:
  Refusal take_messages(const Secret& secret, std::string& received, const std::function<void(std::string_view)>& send);

  Refusal refusal_;
  std::optional<Hello> hello_;
  Challenge challenge_;
  std::optional<Claim> claim_;
};

}  // namespace farside::net
