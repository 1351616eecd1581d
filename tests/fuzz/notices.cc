// What a coordinator sends that knows the secret and is out of its mind: after a true handshake, frames of any kind
// with any fields, each with the right mac, the first of them its verdict. The member must bear it, and notice the end.
//
// Input: for each frame its kind (1 byte), the length of its fields (1), the fields.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

#include "net/handshake.h"
#include "net/runtime_dir.h"
#include "net/session.h"
#include "team/coordinator_client.h"
#include "tests/fuzz/decode.h"

namespace farside::fuzz {
namespace {

constexpr std::chrono::seconds kTimeout(30);

net::SetupClock::time_point soon() { return net::SetupClock::now() + kTimeout; }

class MadCoordinator {
 public:
  /// Lets one member in, says `input` to it, and goes.
  void entertain(std::string_view input) {
    pollfd ready{listener_.get(), POLLIN, 0};
    while (::poll(&ready, 1, std::chrono::milliseconds(kTimeout).count()) < 0 && errno == EINTR) {  // libFuzzer's timer
    }
    if (ready.revents == 0) std::abort();
    const Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    try {
      net::Session session = shake_hands(socket);
      while (input.size() >= 2) {
        const std::size_t bytes = static_cast<unsigned char>(input[1]);
        net::write_all(socket, session.seal(static_cast<net::FrameKind>(input[0]), input.substr(2, bytes)), soon());
        input.remove_prefix(std::min(input.size(), 2 + bytes));
      }
    } catch (const Error&) {  // the member has left, as it may
    }
  }

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] const net::Secret& secret() const { return secret_; }

 private:
  net::Session shake_hands(const Fd& socket) {
    net::Hello hello;
    std::memcpy(&hello, net::read_exactly(socket, sizeof hello, soon()).data(), sizeof hello);
    const net::Challenge challenge = net::make_challenge(secret_, hello);
    net::write_all(socket, net::wire_bytes(challenge), soon());
    net::Claim claim;
    std::memcpy(&claim, net::read_exactly(socket, sizeof claim, soon()).data(), sizeof claim);
    return {net::session_key(secret_, hello, challenge, claim), net::Session::Side::coordinator, net::kBlobLimit};
  }

  net::JobDir directory_;
  net::Secret secret_ = net::Secret::create(directory_.path() / "secret");
  std::string address_ = directory_.path() / "coordinator";
  Fd listener_ = net::listen_on(address_);
};

/// Joins, takes part in one exchange, and waits until the coordinator is gone.
void be_member(const MadCoordinator& coordinator) try {
  std::atomic<bool> gone = false;
  net::EventLoop loop;
  team::CoordinatorClient member(loop, coordinator.address(), coordinator.secret(), 1,
                                 {.lost = [](team::Rank, team::Loss) {},
                                  .returned = [](team::Rank, const std::vector<std::string>&) {},
                                  .coordinator_gone =
                                      [&](const std::string&) {
                                        gone = true;
                                        gone.notify_one();
                                      }},
                                 soon());
  try {
    if (member.exchange("try", "blob", soon()).size() != member.size()) std::abort();
  } catch (const Error&) {
  }
  gone.wait(false);
  loop.stop();
} catch (const Error&) {  // it was not let in
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  using namespace farside;
  if (bytes < 2) return 0;  // no frame: a member whose handshake is not answered connects anew
  // OpenSSL cleans up at exit, if it was used by then: after the coordinator is gone.
  [[maybe_unused]] static const Digest used = hmac_sha256({}, {});
  static fuzz::MadCoordinator coordinator;
  std::thread member([] { fuzz::be_member(coordinator); });
  coordinator.entertain(fuzz::text(data, bytes));
  member.join();
  return 0;
}
