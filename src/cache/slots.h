// slots.h — the local cache array, and the copy of a block out of another node's (Anco, 2.2.1 and 2.5).
//
// Filling a slot:    its bytes and key, fence, token, id.      (the paper's order)
// Recycling it:      id 0, token 0, fence; only then other bytes.
// Copying it:        id and token; key and bytes; id and token again; each awaited before the next.
//
// Guarantee: a copy that succeeded is the block that was asked for. Its token was the same, and not 0, before and after
// the bytes were read, so nothing changed in between, and the key that was read with them is the one wanted. (The id
// alone would not do: the slot may have been recycled for another block and back. Nor would id and token without the
// key: the two words come in any order, so that an id of one life can meet the token of another. And each of the two is
// READ alone: half of a token and half of the 0 before the next one could be found twice, though it changed in
// between.)
#pragma once

#include <cstdint>

#include "farside/team/team.h"

#include "cache/cell.h"
#include "cache/geometry.h"
#include "cache/peers.h"
#include "cache/rules.h"

namespace farside::cache {

class Slots {
 public:
  Slots(const Geometry& geometry, const team::SymmetricRegion& region, Peers& peers, const CacheRules& rules = {})
      : geometry_(geometry), region_(region), peers_(peers), rules_(rules) {}

  /// The place of a block's bytes before it is published.
  [[nodiscard]] LocalSpan data(std::uint32_t slot) const;

  /// Makes the slot's bytes a block under `token`, which this rank never used before.
  void publish(Channel& channel, std::uint32_t slot, const BlockKey& key, std::uint64_t bytes,
               std::uint64_t token) const;
  /// Makes the slot hold nothing; its bytes may be overwritten afterwards.
  void retract(Channel& channel, std::uint32_t slot) const;

  /// Copies block `key` from `from` into the bytes of local slot `into`. False when `from` does not have it, or no
  /// longer.
  [[nodiscard]] bool copy(Channel& channel, const BlockKey& key, Place from, std::uint32_t into,
                          Deadline deadline) const;
  /// Whether there is such a place, at a node that may answer.
  [[nodiscard]] bool reachable(Place place) const;
  /// Whether `at` bears block `id`.
  [[nodiscard]] bool holds(Channel& channel, BlockId id, Place at, Deadline deadline) const;

 private:
  struct Header {
    std::uint64_t id;
    std::uint64_t token;
  };
  [[nodiscard]] Header read_header(Channel& channel, Place at, Deadline deadline) const;

  const Geometry& geometry_;
  const team::SymmetricRegion& region_;
  Peers& peers_;
  const CacheRules rules_;
};

}  // namespace farside::cache
