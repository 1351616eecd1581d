// The address of a process.
#include "fabric/host/address.h"

#include "tests/fuzz/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  using namespace farside;
  fuzz::expect_refused_or_understood<ProcessAddress>(fuzz::text(data, bytes), SealKind::process);
  return 0;
}
