// shipping_ring.h — a partition's changes on their way to its standby: a ring in the standby's memory, written by the
// primary alone (docs/protocols/kv_replication.md).
//
//   0     ControlWord   taken: how far the standby has taken what came, in bytes of the log; kGivenUp: it takes no more
//   64    frames        byte n of the log lies at 64 + n mod capacity
//
//   frame, padded with zeros to whole 32 B; none reaches over the end of the ring
//   0          8        12      16           24
//   | position | bytes  | rest  | checksum   | piece of an entry |
//
// An entry is an encoded Request, in one piece or several: `rest` bytes of it follow. The position is where in the log
// the frame begins, so nothing that was in its place before is taken for it.
//
// Guarantee: what is taken are whole entries, each once, in the order in which they were written, however the words of
// the WRITEs arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "farside/base/rounding.h"

namespace farside::kv {

struct ShippedFrameHead {
  std::uint64_t position;
  std::uint32_t bytes;     ///< of the piece
  std::uint32_t rest;      ///< of the entry, after the piece
  std::uint64_t checksum;  ///< of the piece, seeded with all before it

  static constexpr std::uint64_t kUnit = 32;
  static_assert(sizeof(std::uint64_t) * 3 < kUnit);

  [[nodiscard]] static constexpr std::uint64_t frame_bytes(std::uint64_t piece) {
    return round_up(3 * sizeof(std::uint64_t) + piece, kUnit);
  }
};
static_assert(sizeof(ShippedFrameHead) == 24 && std::has_unique_object_representations_v<ShippedFrameHead>);

struct ShippingRing {
  static constexpr std::uint64_t kTaken = 0;
  static constexpr std::uint64_t kFrames = 64;
  static constexpr std::uint64_t kGivenUp = ~std::uint64_t{0};

  std::uint64_t capacity;  ///< of the frames

  /// The ring in a region of so many bytes. Throws UsageError when nothing fits.
  [[nodiscard]] static ShippingRing in(std::uint64_t region_bytes);
  [[nodiscard]] std::uint64_t offset(std::uint64_t position) const { return kFrames + position % capacity; }
  [[nodiscard]] std::uint64_t until_end(std::uint64_t position) const { return capacity - position % capacity; }
  /// The longest piece of a frame there. Several frames fit, so that a long entry moves on while it is taken.
  [[nodiscard]] std::uint64_t most_piece(std::uint64_t position) const;
};

[[nodiscard]] std::uint64_t checksum_of(const ShippedFrameHead& head, const std::byte* piece);

}  // namespace farside::kv
