// alternative_directory.h — which other nodes of my group have a block, for the day its representative drops it
// (Anco, 2.4.2).
//
// A hash table of one word an entry, its entries dealt to the group's members. Collisions overwrite: it is a hint.
//
//   63..40 tag     of the block's id
//   39..24 rank
//   23..0  slot+1  0 only in the empty entry
#pragma once

#include <optional>

#include "farside/team/team.h"

#include "cache/cell.h"
#include "cache/geometry.h"
#include "cache/peers.h"

namespace farside::cache {

class AlternativeDirectory {
 public:
  AlternativeDirectory(const Geometry& geometry, Peers& peers, std::uint32_t group)
      : geometry_(geometry), peers_(peers), group_(group) {}

  /// Says that `place` has the block. Overwrites whatever stood there.
  void record(Channel& channel, BlockId id, Place place, Deadline deadline) const;
  /// Takes that back, unless the entry says something else by now.
  void erase(Channel& channel, BlockId id, Place place, Deadline deadline) const;
  /// Returns the place that the entry has for this block, if any.
  [[nodiscard]] std::optional<Place> find(Channel& channel, BlockId id, Deadline deadline) const;

 private:
  const Geometry& geometry_;
  Peers& peers_;
  std::uint32_t group_;
};

}  // namespace farside::cache
