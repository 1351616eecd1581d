// shipped_entry.h — one entry of what a primary ships to its standby (shipping_ring.h), which lays out its memory as
// the primary does (docs/protocols/kv_replication.md, "The same layout").
//
//   0           4         8
//   | places 4  | gone 4  | a TakenPlace each | a GoneKey each | an encoded Request, or nothing |
//
// Guarantee: a standby that replays all entries in their order has room for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "kv/protocol/messages.h"
#include "kv/server/store.h"

namespace farside::kv {

struct ShippedEntryHead {
  std::uint32_t places;  ///< of the versions that the request prepares
  std::uint32_t gone;    ///< keys of which the primary has given back everything, before it carried out the request
};
static_assert(sizeof(ShippedEntryHead) == 8 && std::has_unique_object_representations_v<ShippedEntryHead>);

struct ShippedEntry {
  /// No longer than its request and as much again.
  static constexpr std::uint64_t kMaxBytes = 2 * kMaxMessageBytes;

  std::vector<TakenPlace> places{};
  std::vector<GoneKey> gone{};
  std::span<const std::byte> request{};

  /// None: these bytes are no entry. Trusts nothing; `request` points into them.
  [[nodiscard]] static std::optional<ShippedEntry> decode(std::span<const std::byte> bytes);
};

/// `entry`: where the bytes go, in place of what it holds.
void encode_shipped(std::span<const TakenPlace> places, std::span<const GoneKey> gone,
                    std::span<const std::byte> request, Message& entry);

}  // namespace farside::kv
