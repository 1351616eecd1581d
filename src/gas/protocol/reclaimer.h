// reclaimer.h — finds slots of this rank that pages have left.
//
// A slot is used again when the directory names another place for its page, and no rank can write to it any more: the
// mover waited for all puts, except those of ranks whose access was to be taken away; so it is taken away here, too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "gas/protocol/page_directory.h"

namespace farside::gas {

class Reclaimer {
 public:
  Reclaimer(PageMemory& memory, PageDirectory& directory) : memory_(memory), directory_(directory) {}

  struct Slot {
    comm::Status status;
    std::optional<std::uint64_t> slot{};  ///< none: there is no free one
  };
  /// A free slot, searched for when none is at hand.
  Slot take(Deadline deadline);

 private:
  comm::Status free_some(Deadline deadline);
  /// Cuts off the ranks that could still write to slots that pages have left.
  comm::Status cut_off_passed(Deadline deadline);
  Outcome cut_off(team::Rank rank, Deadline deadline);

  PageMemory& memory_;
  PageDirectory& directory_;
  std::map<team::Rank, Time> passed_since_;  // when this thread first found it distrusted
  std::set<team::Rank> cut_off_;
};

}  // namespace farside::gas
