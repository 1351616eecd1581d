// The address of a process, as it comes, and with the right checksum, which chance would never find.
#include "fabric/host/address.h"

#include "fabric/seal.h"
#include "tests/fuzz/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  using farside::ProcessAddress;
  const std::string_view content = farside::fuzz::text(data, bytes);
  farside::fuzz::expect_refused_or_understood<ProcessAddress>(content);
  farside::fuzz::expect_refused_or_understood<ProcessAddress>(farside::seal(farside::SealKind::process, content));
  return 0;
}
