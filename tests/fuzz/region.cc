// The handle of a region.
#include "fabric/host/address.h"
#include "tests/fuzz/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  using namespace farside;
  fuzz::expect_refused_or_understood<RegionHandle>(fuzz::text(data, bytes), SealKind::region);
  return 0;
}
