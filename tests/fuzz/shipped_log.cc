// What a primary writes into the ring of its standby (kv/replication/shipped_log.h): anything, anywhere, and frames
// whose checksums are right and whose contents are not. The standby bears it; once it has given up it takes nothing
// more.
//
// Input: for each thing that is written its kind (1 byte): even, bytes as they are: where in the ring (2), how many
// (1), the bytes; odd, the next frame: how many bytes of its entry follow it (1), how many bytes (1), the bytes. After
// each the standby looks.
#include "kv/replication/shipped_log.h"

#include <algorithm>
#include <cstdlib>

#include "tests/fuzz/input.h"
#include "tests/fuzz/small_store.h"

namespace farside::fuzz {
namespace {

using namespace kv;

constexpr std::uint64_t kRingBytes = ShippingRing::kFrames + 512;

/// What a primary that is at `position` of the log writes there; where it is then.
std::uint64_t write_next(Input& input, const Region& region, std::uint64_t position) {
  const ShippingRing ring = ShippingRing::in(kRingBytes);
  const std::uint64_t kind = input.byte();
  if (kind % 2 == 0) {
    const std::uint64_t at = (input.byte() << 8U | input.byte()) % kRingBytes;
    region.copy_in(at, input.bytes(std::min(input.byte(), kRingBytes - at)));
    return position;
  }
  const std::uint64_t rest = input.byte();
  const auto piece = input.bytes(std::min(input.byte(), ring.most_piece(position)));
  ShippedFrameHead head{position, static_cast<std::uint32_t>(piece.size()), static_cast<std::uint32_t>(rest), 0};
  head.checksum = checksum_of(head, piece.data());
  if (kind > 127) head.bytes = static_cast<std::uint32_t>(input.byte() * 64);
  region.copy_in(ring.offset(position), std::as_bytes(std::span(&head, 1)));
  region.copy_in(ring.offset(position) + sizeof head, piece);
  return position + ShippedFrameHead::frame_bytes(piece.size());
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  static const auto fabric = make_host_fabric({.mode = FabricMode::direct});
  fuzz::Input input(std::as_bytes(std::span(data, size)));
  fuzz::SmallStore store(*fabric);
  const auto ring = fabric->create_region("ring", fuzz::kRingBytes);
  kv::ShippedLog log(store.channel(), *ring, *store);
  for (std::uint64_t position = 0; !input.is_over();) {
    position = fuzz::write_next(input, *ring, position);
    const bool was_sound = log.is_sound();
    const bool has_taken = log.take_some();
    if (!was_sound && (has_taken || log.is_sound())) std::abort();
  }
  return 0;
}
