// shipped_entry.h — one entry of what a primary ships to its standby (shipping_ring.h), which lays out its memory as
// the primary does (docs/protocols/kv_replication.md, "The same layout").
//
//   0           4         6         8
//   | places 4  | gone 2  | part 2  | a TakenPlace each | a GoneKey each | an encoded Request, or nothing |
//
// A standby that begins with nothing is shipped all that its primary has, between the changes, and then that it has a
// full copy (store_copy.h).
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

enum class ShippedPart : std::uint16_t {
  change,         ///< of the primary's store; also of those that it made before
  version,        ///< a committed one that it had before: a put of one key, `about` has what its mark says
  end_of_copy,    ///< these were all; the request has the highest timestamp and session that the primary has forgotten,
                  ///< and in the place of a session the primary's epoch
  begin_of_copy,  ///< the first entry, where both servers have disks: a `use` with the store's number in the place of a
                  ///< session, and the primary's epoch in that of what is settled
};

struct ShippedEntryHead {
  std::uint32_t places;  ///< of the versions that the request prepares
  std::uint16_t gone;    ///< keys of which the primary has given back everything, before it carried out the request
  ShippedPart part;
};
static_assert(sizeof(ShippedEntryHead) == 8 && std::has_unique_object_representations_v<ShippedEntryHead>);

struct ShippedEntry {
  /// No longer than its request and as much again.
  static constexpr std::uint64_t kMaxBytes = 2 * kMaxMessageBytes;

  ShippedPart part = ShippedPart::change;
  std::vector<TakenPlace> places{};
  std::vector<GoneKey> gone{};
  std::span<const std::byte> request{};

  /// None: these bytes are no entry. Trusts nothing; `request` points into them.
  [[nodiscard]] static std::optional<ShippedEntry> decode(std::span<const std::byte> bytes);
};

/// `gone`: below 64 Ki. `entry`: where the bytes go, in place of what it holds.
void encode_shipped(ShippedPart part, std::span<const TakenPlace> places, std::span<const GoneKey> gone,
                    std::span<const std::byte> request, Message& entry);

}  // namespace farside::kv
