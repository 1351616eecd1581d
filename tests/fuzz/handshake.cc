// Bytes that arrive before a peer has proven anything (net/introduction.h), as they are, and messages that are right
// up to some place. Without a proof neither side accepts the other; a side that has refused stays so; bytes behind a
// proof that have no mac are no frame.
//
// Input: the side that receives (1 byte: even the service). For the service, each thing that arrives: its kind (1
// byte), 0 mod 3: how many bytes (1), the bytes; 1: a Hello of this protocol; 2: a Claim of the rank that follows (1)
// that proves the secret. After each the service looks. For the client: the bytes of the service.
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>

#include "net/introduction.h"
#include "net/runtime_dir.h"
#include "tests/fuzz/decode.h"
#include "tests/fuzz/input.h"

namespace farside::fuzz {
namespace {

constexpr std::size_t kBodyLimit = 1024;

const net::Secret& secret() {
  static const net::JobDir directory;
  static const net::Secret secret = net::Secret::create(directory.path() / "secret");
  return secret;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return text(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

/// A service, and the peer that it hears.
class Service {
 public:
  /// Adds the next thing to what the service has received. True: from now on it knows the peer.
  bool hear(Input& input) {
    switch (input.byte() % 3) {
      case 0: received_ += text_of(input.bytes(input.byte())); break;
      case 1: received_ += net::wire_bytes(hello_); break;
      default:
        received_ +=
            net::wire_bytes(net::make_claim(secret(), hello_, challenge_, static_cast<std::uint32_t>(input.byte())));
        has_proven_ = true;
    }
    const auto refusal = introduction_.advance(secret(), received_, [this](std::string_view sent) {
      if (sent.size() != sizeof challenge_) std::abort();
      std::memcpy(&challenge_, sent.data(), sent.size());
    });
    const bool is_known = introduction_.claim().has_value();
    if (is_known && (!has_proven_ || refusal || was_refused_)) std::abort();
    was_refused_ = was_refused_ || refusal;
    return is_known;
  }

  void expect_no_frame(Input& input) {
    net::Session session(introduction_.key(secret()), net::Session::Side::coordinator, kBodyLimit);
    received_ += text_of(input.bytes(~std::size_t{0}));
    if (session.open(received_).next == net::Session::Next::frame) std::abort();
  }

 private:
  const net::Hello hello_ = net::make_hello();
  net::Challenge challenge_;
  bool has_proven_ = false;
  bool was_refused_ = false;
  net::Introduction introduction_;
  std::string received_;
};

void introduce_to(std::string_view service) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
  const Fd client(ends[0]);
  const Fd other(ends[1]);
  const auto soon = net::SetupClock::now() + std::chrono::seconds(30);
  net::write_all(other, service, soon);
  if (::shutdown(other.get(), SHUT_WR) != 0) std::abort();
  try {
    (void)net::shake_hands(client, {"try", "the fuzzer"}, secret(), 0, kBodyLimit, soon);
  } catch (const Error&) {
    return;
  }
  std::abort();
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside::fuzz;
  Input input(std::as_bytes(std::span(data, size)));
  if (input.byte() % 2 != 0) {
    introduce_to(text_of(input.bytes(size)));
    return 0;
  }
  for (Service service; !input.is_over();) {
    if (service.hear(input)) service.expect_no_frame(input);
  }
  return 0;
}
