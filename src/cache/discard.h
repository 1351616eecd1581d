// discard.h — making room (Anco, 2.5.2).
//
// Guarantee: once a slot is free, its header says so, and no directory cell names it, but for cells at nodes that are
// out of reach. Of a node that hands its cell to an alternative and an alternative that drops its block at the same
// time, at least one sees the other: the first looks at the alternative's header after it changed the cell, the second
// looks at the cell after it cleared its header.
#pragma once

#include <cstdint>
#include <optional>

#include "cache/alternative_directory.h"
#include "cache/directory.h"
#include "cache/slot_index.h"
#include "cache/slots.h"

namespace farside::cache {

class Discarder {
 public:
  Discarder(team::Team& team, const Geometry& geometry, const Directory& directory,
            const AlternativeDirectory& alternative, const Slots& slots, SlotIndex& slot_index, Duration loading_lease,
            const CacheRules& rules)
      : team_(team),
        group_(geometry.group_of(team.rank())),
        directory_(directory),
        alternative_(alternative),
        slots_(slots),
        slot_index_(slot_index),
        loading_lease_(loading_lease),
        rules_(rules) {}

  /// A slot to fill: a free one, or that of the block that can best be spared. Nothing when the deadline passed.
  [[nodiscard]] std::optional<std::uint32_t> take_slot(Channel& channel, Deadline deadline);

 private:
  /// The directories' entries for a block of ours.
  struct Standing {
    std::optional<Row> row;
    bool representative = false;       ///< our group's cell names our copy
    std::optional<Place> alternative;  ///< another copy in our group
    bool singlet = false;              ///< no copy is known but ours
  };
  [[nodiscard]] Standing examine(Channel& channel, const SlotIndex::Candidate& candidate, Deadline deadline) const;
  void discard(Channel& channel, const SlotIndex::Candidate& candidate, Standing standing, Deadline deadline);
  void hand_over(Channel& channel, BlockId id, Standing& standing, Deadline deadline) const;

  team::Team& team_;
  std::uint32_t group_;
  const Directory& directory_;
  const AlternativeDirectory& alternative_;
  const Slots& slots_;
  SlotIndex& slot_index_;
  Duration loading_lease_;
  const CacheRules rules_;
};

}  // namespace farside::cache
