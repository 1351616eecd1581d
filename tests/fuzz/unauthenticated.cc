// An unauthenticated peer of a coordinator, or of a service of the pool, sends bytes over a socket and hangs up. Both
// survive it, and admit the next one.
//
// Input: which of the two (1 byte: even the coordinator), and each thing that the peer says: its kind (1 byte), 0 mod
// 4: how many bytes (1), the bytes; 1: a Hello, and if it comes first its Challenge is awaited; 2: a Claim of the rank
// that follows (1) that proves the secret; 3: everything said so far is sent.
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "net/runtime_dir.h"
#include "service/service_clients.h"
#include "service/service_messages.h"
#include "team/coordinator.h"
#include "tests/fuzz/decode.h"
#include "tests/fuzz/input.h"

namespace farside::fuzz {
namespace {

constexpr team::Rank kSize = 2;

net::SetupClock::time_point soon() { return net::SetupClock::now() + std::chrono::seconds(10); }

class UnauthenticatedPeer {
 public:
  UnauthenticatedPeer(const std::string& address, const net::Secret& secret)
      : socket_(net::connect_to(address, soon())), secret_(secret) {}

  void send_all(Input& input) try {
    for (bool is_first = true; !input.is_over(); is_first = false) say_next(input, is_first);
    send();
  } catch (const Error&) {  // the connection was closed, as it may be
  }

 private:
  void say_next(Input& input, bool is_first) {
    switch (input.byte() % 4) {
      case 0: {
        const auto bytes = input.bytes(input.byte());
        unsent_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return;
      }
      case 1:
        unsent_ += net::wire_bytes(hello_);
        if (!is_first) return;
        send();
        std::memcpy(&challenge_, net::read_exactly(socket_, sizeof challenge_, soon()).data(), sizeof challenge_);
        return;
      case 2:
        unsent_ += net::wire_bytes(net::make_claim(secret_, hello_, challenge_, static_cast<team::Rank>(input.byte())));
        return;
      default: send();
    }
  }

  void send() { net::write_all(socket_, std::exchange(unsent_, {}), soon()); }

  const Fd socket_;
  const net::Secret& secret_;
  const net::Hello hello_ = net::make_hello();
  net::Challenge challenge_;
  std::string unsent_;
};

class Silent final : public service::ServiceClients::Handler {
 public:
  std::string welcome() override { return "welcome"; }
  service::ServiceClients::Refusal handle(service::ServiceClients::Number /*number*/,
                                          const std::string& /*message*/) override {
    return {};
  }
  [[nodiscard]] std::string refusal(const std::string& reason) const override { return reason; }
  void part(service::ServiceClients::Number /*number*/) override {}
};

class Services {
 public:
  ~Services() { loop_.stop(); }

  void bear(Input input) {
    const bool is_service = input.byte() % 2 != 0;
    const std::string address = is_service ? service_address_ : coordinator_.address();
    UnauthenticatedPeer(address, secret_).send_all(input);
    if (is_service) return expect_let_in(address, 0, net::FrameKind::service);
    for (team::Rank rank = 0; rank < kSize; ++rank) expect_let_in(address, rank, net::FrameKind::welcome);
  }

 private:
  /// A seat may be taken until the coordinator has seen that its holder is gone.
  void expect_let_in(const std::string& address, team::Rank rank, net::FrameKind wanted) {
    for (const auto give_up = soon(); !is_let_in(address, rank, wanted);) {
      if (net::SetupClock::now() > give_up) std::abort();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  [[nodiscard]] bool is_let_in(const std::string& address, team::Rank rank, net::FrameKind wanted) const {
    const net::Introduced what{"join", address};
    const Fd socket = net::connect_to(address, soon());
    net::Session session = shake_hands(socket, what, secret_, rank, service::kServiceBodyLimit, soon());
    return net::read_frame(socket, what, session, service::kServiceBodyLimit, soon()).kind == wanted;
  }

  net::JobDir directory_;
  net::Secret secret_ = net::Secret::create(directory_.path() / "secret");
  team::Coordinator coordinator_{directory_.path() / "coordinator", secret_, kSize};
  const std::string service_address_ = directory_.path() / "service";
  Silent handler_;
  net::EventLoop loop_;
  service::ServiceClients clients_{loop_, secret_, handler_, {service_address_}};
};

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  // OpenSSL cleans up at exit, if it was used by then: after the services are gone.
  [[maybe_unused]] static const farside::Digest used = farside::hmac_sha256({}, {});
  static farside::fuzz::Services services;
  services.bear(farside::fuzz::Input(std::as_bytes(std::span(data, bytes))));
  return 0;
}
