// What UCX engines tell each other: addresses, memory handles, and the hello that opens each link.
#include "base/hmac.h"
#include "base/wire.h"
#include "fabric/ucx/messages.h"
#include "tests/fuzz/decode.h"

namespace farside::fuzz {
namespace {

constexpr UcxIdentity kSelf{1, 2};
constexpr std::string_view kSecret = "secret";

std::string hello_again(std::string_view hello) {
  return UcxHello::decode(hello, kSecret, kSelf).encode(kSecret, kSelf);
}

/// As a process that knows the secret says it.
std::string hello_of(std::string_view content) {
  const Digest proof =
      hmac_sha256(as_octets(kSecret), Encoder().number(kSelf[0]).number(kSelf[1]).take() + std::string(content));
  return seal(SealKind::hello, std::string(proof.begin(), proof.end()).append(content));
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  using namespace farside;
  const std::string_view input = fuzz::text(data, bytes);
  fuzz::expect_refused_or_understood<UcxAddress>(input, SealKind::address);
  fuzz::expect_refused_or_understood<UcxRemoteMemory>(input, SealKind::memory);
  fuzz::expect_refused_or_understood(input, fuzz::hello_again);
  fuzz::expect_refused_or_understood(seal(SealKind::hello, input), fuzz::hello_again);
  fuzz::expect_refused_or_understood(fuzz::hello_of(input), fuzz::hello_again);
  return 0;
}
