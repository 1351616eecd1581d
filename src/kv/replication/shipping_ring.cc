#include "kv/replication/shipping_ring.h"

#include <algorithm>
#include <string>

#include "farside/base/error.h"
#include "farside/base/mix.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"

namespace farside::kv {

namespace {
constexpr std::uint64_t kLeastFrames = 4;  // of the longest
}

ShippingRing ShippingRing::in(std::uint64_t region_bytes) {
  const std::uint64_t least = ShippingRing::kFrames + kLeastFrames * ShippedFrameHead::kUnit;
  if (region_bytes < least) {
    throw UsageError({"ship changes through", "a ring of " + std::to_string(region_bytes) + " bytes", "nothing fits",
                      "give it " + std::to_string(least) + " or more"});
  }
  return {(region_bytes - ShippingRing::kFrames) / ShippedFrameHead::kUnit * ShippedFrameHead::kUnit};
}

std::uint64_t ShippingRing::most_piece(std::uint64_t position) const {
  assert_that(position % ShippedFrameHead::kUnit == 0, "a frame begins at a whole unit");
  const std::uint64_t part = capacity / kLeastFrames / ShippedFrameHead::kUnit * ShippedFrameHead::kUnit;
  return std::min(part, until_end(position)) - sizeof(ShippedFrameHead);
}

std::uint64_t checksum_of(const ShippedFrameHead& head, const std::byte* piece) {
  const std::uint64_t lengths = std::uint64_t{head.bytes} << 32U | head.rest;
  return XXH3_64bits_withSeed(piece, head.bytes, mix(head.position + kMixStep * lengths));
}

}  // namespace farside::kv
