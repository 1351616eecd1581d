// What a member sends that knows the secret and is out of its mind: after a true handshake, frames of any kind with any
// fields, each with the right mac. The coordinator must bear it, and admit the next.
//
// Input: for each frame its kind (1 byte), the length of its fields (1), the fields.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "net/handshake.h"
#include "net/runtime_dir.h"
#include "net/secret.h"
#include "net/session.h"
#include "net/socket.h"
#include "team/coordinator.h"
#include "tests/fuzz/decode.h"

namespace farside::fuzz {
namespace {

net::SetupClock::time_point soon() { return net::SetupClock::now() + std::chrono::seconds(30); }

/// A coordinator of a team of two: one member never comes, and the other takes its seat again and again. An Error that
/// gets out of here, as when the coordinator does not answer, is what the fuzzer looks for.
class Team {
 public:
  void bear(std::string_view input) {
    const auto give_up = soon();
    while (!visit(input)) {  // its earlier self may not be gone yet
      if (net::SetupClock::now() > give_up) std::abort();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  /// False when the seat was not free.
  bool visit(std::string_view input) {
    const Fd socket = net::connect_to(coordinator_.address(), soon());
    const net::Hello hello = net::make_hello();
    net::write_all(socket, net::wire_bytes(hello), soon());
    net::Challenge challenge;
    std::memcpy(&challenge, net::read_exactly(socket, sizeof challenge, soon()).data(), sizeof challenge);
    const net::Claim claim = net::make_claim(secret_, hello, challenge, 1);
    net::write_all(socket, net::wire_bytes(claim), soon());
    net::Session session(net::session_key(secret_, hello, challenge, claim), net::Session::Side::member,
                         net::kBlobLimit);
    if (!admitted(socket, session)) return false;
    try {
      send_frames(socket, session, input);
    } catch (const Error&) {  // the coordinator has closed the connection, as it may
    }
    return true;
  }

  static bool admitted(const Fd& socket, net::Session& session) {
    std::string frame = net::read_exactly(socket, net::kFrameHeader, soon());
    frame += net::read_exactly(socket, net::body_bytes(frame), soon());
    const auto [next, answer] = session.open(frame);
    return next == net::Session::Next::frame && answer.kind == net::FrameKind::welcome;
  }

  static void send_frames(const Fd& socket, net::Session& session, std::string_view input) {
    while (input.size() >= 2) {
      const std::size_t bytes = static_cast<unsigned char>(input[1]);
      net::write_all(socket, session.seal(static_cast<net::FrameKind>(input[0]), input.substr(2, bytes)), soon());
      input.remove_prefix(std::min(input.size(), 2 + bytes));
    }
  }

  net::JobDir directory_;
  net::Secret secret_ = net::Secret::create(directory_.path() / "secret");
  team::Coordinator coordinator_{directory_.path() / "coordinator", secret_, 2};
};

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  // OpenSSL cleans up at exit, if it was used by then: after the team is gone, since it is used before there is one.
  [[maybe_unused]] static const farside::Digest used = farside::hmac_sha256({}, {});
  static farside::fuzz::Team team;
  team.bear(farside::fuzz::text(data, bytes));
  return 0;
}
