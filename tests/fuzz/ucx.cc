// What UCX engines tell each other: addresses, memory handles, and the greeting that opens each link.
#include "fabric/ucx/messages.h"
#include "tests/fuzz/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  using namespace farside;
  const std::string_view input = fuzz::text(data, bytes);
  fuzz::expect_refused_or_understood<UcxAddress>(input, SealKind::address);
  fuzz::expect_refused_or_understood<UcxRemoteMemory>(input, SealKind::memory);
  fuzz::expect_refused_or_understood<UcxGreeting>(input, SealKind::greeting);
  return 0;
}
