// acquire.h — bringing a block into this node (Anco, 2.5.1).
//
//   my group's cell   what happens
//   loaded            copy it from one of the places that the row names, of whatever group, at random
//   loading           wait; when the loader is dead, or silent for the lease, take its place
//   invalid           become the representative: turn the cell to loading, copy the block from another group, from the
//                     place that the alternative directory names, or from the file system, publish it, turn the cell to
//                     loaded
//
// Guarantee: as long as no loader dies or is silent for a lease, no directory home dies, and no node owes an answer for
// long (peers.h), a block that all want at once is read from the file system at most once a group.
//
// A block that the directory cannot list (its home is dead or does not answer, the bucket is full) is kept unlisted,
// and found by the group through the alternative directory alone.
#pragma once

#include <cstdint>
#include <optional>

#include "farside/cache/cache.h"

#include "cache/alternative_directory.h"
#include "cache/directory.h"
#include "cache/discard.h"
#include "cache/leases.h"
#include "cache/slot_index.h"
#include "cache/slots.h"

namespace farside::cache {

class Acquirer {
 public:
  Acquirer(team::Team& team, const Geometry& geometry, const Directory& directory,
           const AlternativeDirectory& alternative, const Slots& slots, SlotIndex& slot_index, Discarder& discarder,
           Leases& leases, Duration loading_lease, const CacheRules& rules)
      : team_(team),
        geometry_(geometry),
        group_(geometry.group_of(team.rank())),
        loading_lease_(loading_lease),
        directory_(directory),
        alternative_(alternative),
        slots_(slots),
        slot_index_(slot_index),
        discarder_(discarder),
        leases_(leases),
        rules_(rules) {}

  /// `watch`: where it is given, another node that loads the block is waited for only time_limits::kLoadElsewhere.
  Acquired acquire(Channel& channel, const BlockKey& key, BlockSource& source, std::uint64_t new_token,
                   Deadline deadline, LoaderWatch* watch);

 private:
  /// The values that all steps of one acquisition share.
  struct Request {
    Channel& channel;
    const BlockKey& key;
    BlockSource& source;
    BlockId id;
    std::uint32_t slot;
    std::uint64_t token;
    Deadline deadline;
    LoaderWatch* watch;
  };
  enum class Step { done, again, elsewhere, failed };

  [[nodiscard]] Acquired fetch(Channel& channel, const BlockKey& key, BlockSource& source, std::uint64_t new_token,
                               Deadline deadline, LoaderWatch* watch);
  [[nodiscard]] Acquired::Answer fill(const Request& request);
  [[nodiscard]] Step try_once(const Request& request, Row& row, LoaderWatch& watch);
  [[nodiscard]] Step bring_unlisted(const Request& request);
  [[nodiscard]] Step represent(const Request& request, Row& row);
  struct Copied {
    bool done = false;
    bool group_lacks_it = false;  ///< the copy that our group's cell names could not be read
  };
  [[nodiscard]] Copied copy_from_any(const Request& request, const Row& row);
  [[nodiscard]] bool copy_from_alternative(const Request& request);
  [[nodiscard]] bool copy_from(const Request& request, Place place);
  [[nodiscard]] bool load(const Request& request);
  void settle(const Request& request, Leases::Load known, bool is_here) const;
  [[nodiscard]] Deadline to_settle(const Request& request) const;
  [[nodiscard]] bool loader_is_gone(const Cell& cell, LoaderWatch& watch);
  void publish(const Request& request);

  team::Team& team_;
  const Geometry& geometry_;
  std::uint32_t group_;
  Duration loading_lease_;
  const Directory& directory_;
  const AlternativeDirectory& alternative_;
  const Slots& slots_;
  SlotIndex& slot_index_;
  Discarder& discarder_;
  Leases& leases_;
  const CacheRules rules_;
};

}  // namespace farside::cache
