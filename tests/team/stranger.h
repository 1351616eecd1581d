// stranger.h — a peer that connects to a coordinator and then does as it likes.
#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include <poll.h>
#include <sys/socket.h>

#include "net/handshake.h"
#include "net/session.h"
#include "net/socket.h"
#include "team/coordinator.h"
#include "tests/support/shared.h"
#include "tests/team/coordinator_fixture.h"

namespace farside::test {

class Stranger {
 public:
  explicit Stranger(const team::Coordinator& coordinator) : socket_(net::connect_to(coordinator.address(), soon())) {}

  /// Closes the connection as one that breaks ends.
  void reset() {
    constexpr linger kAtOnce{1, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &kAtOnce, sizeof kAtOnce);
    socket_.reset();
  }

  void send(std::string_view bytes) { net::write_all(socket_, bytes, soon()); }
  template <class Message>
  Message receive() {
    Message message;
    std::memcpy(&message, net::read_exactly(socket_, sizeof message, soon()).data(), sizeof message);
    return message;
  }
  net::Frame receive_frame(net::Session& session) {
    std::string bytes = net::read_exactly(socket_, net::kFrameHeader, soon());
    bytes += net::read_exactly(socket_, net::body_bytes(bytes), soon());
    net::Session::Opened opened = session.open(bytes);
    EXPECT_EQ(opened.next, net::Session::Next::frame);
    return std::move(opened.frame);
  }
  /// The coordinator has sent something that was not received yet.
  bool has_news() {
    pollfd event{socket_.get(), POLLIN, 0};
    return ::poll(&event, 1, 60'000) == 1;
  }
  /// The coordinator hung up, perhaps after a last word.
  bool was_refused() {
    return eventually([this] {
      std::array<char, 256> last_words;
      const ssize_t count = ::recv(socket_.get(), last_words.data(), last_words.size(), 0);
      return count == 0 || (count < 0 && errno == ECONNRESET);
    });
  }
  /// Proves to know `secret` and claims `rank`.
  net::Session shake_hands(const net::Secret& secret, team::Rank rank,
                           net::ClaimPurpose purpose = net::ClaimPurpose::take_seat) {
    const net::Hello hello = net::make_hello();
    send(net::wire_bytes(hello));
    const auto challenge = receive<net::Challenge>();
    const net::Claim claim = net::make_claim(secret, hello, challenge, rank, purpose);
    send(net::wire_bytes(claim));
    return {net::session_key(secret, hello, challenge, claim), net::Session::Side::member, 1 << 20};
  }

 private:
  Fd socket_;
};

}  // namespace farside::test
