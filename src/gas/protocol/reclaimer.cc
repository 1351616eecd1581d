#include "gas/protocol/reclaimer.h"

#include <vector>

namespace farside::gas {

namespace {
constexpr std::uint64_t kAtOnce = 256;
}

Reclaimer::Slot Reclaimer::take(Deadline deadline) {
  SlotTable& slots = memory_.slots();
  const std::uint64_t all = memory_.layout().shape().slots;
  for (std::uint64_t looked_at = 0;; looked_at += kAtOnce) {
    if (const auto slot = slots.take()) return {{}, slot};
    if (looked_at >= all) return {};
    if (const comm::Status status = free_some(deadline); !status.done()) return {status};
  }
}

comm::Status Reclaimer::free_some(Deadline deadline) {
  std::vector<SlotTable::Filled> filled = memory_.slots().next_filled(kAtOnce);
  std::vector<Location> places;
  for (Pauses pauses(memory_.fabric());;) {
    // The place of such a page is unknown from now on.
    std::erase_if(filled, [this](const SlotTable::Filled& slot) {
      return memory_.fabric().lost(memory_.layout().home_of(slot.page));
    });
    std::vector<PageId> pages;
    pages.reserve(filled.size());
    for (const SlotTable::Filled& slot : filled) pages.push_back(slot.page);
    places.resize(pages.size());
    const comm::Status looked = directory_.look(pages, places, deadline);
    if (looked.done()) break;
    // Another home is lost; which one will be known soon.
    if (looked.outcome == Outcome::timed_out || !pauses.sleep(deadline)) return looked;
  }
  // In this order: a mover records the ranks that it passed before it publishes the move.
  if (memory_.rules().distrusts_before_freeing) {
    if (const comm::Status cut_off = cut_off_passed(deadline); !cut_off.done()) return cut_off;
  }
  const team::Rank self = memory_.self();
  for (std::size_t i = 0; i < filled.size(); ++i) {
    const bool is_here = places[i].owner == self && places[i].slot == filled[i].slot &&
                         (memory_.rules().frees_after_publishing || !places[i].moving);
    const bool is_in_doubt = filled[i].in_doubt == places[i];
    if (!is_here && !is_in_doubt) memory_.slots().empty(filled[i]);
  }
  return {};
}

comm::Status Reclaimer::cut_off_passed(Deadline deadline) {
  for (team::Rank rank = 0; rank < memory_.team().size(); ++rank) {
    if (!memory_.distrusts(rank) || rank == memory_.self() || cut_off_.contains(rank)) continue;
    if (const Outcome outcome = cut_off(rank, deadline); outcome != Outcome::done) return {outcome, {}};
    cut_off_.insert(rank);
  }
  return {};
}

// A loss that a mover knows of, the team reports here soon as well, where it can. Under PMIx it cannot report the
// eviction of a rank that lives on: this process waits for the lease, over several calls if their deadlines are short,
// and then evicts the rank itself. What it needs is its own fence, not the agreement of the others.
Outcome Reclaimer::cut_off(team::Rank rank, Deadline deadline) {
  const Time since = passed_since_.try_emplace(rank, memory_.fabric().now()).first->second;
  for (Pauses pauses(memory_.fabric()); !memory_.has_left(rank);) {
    const bool is_overdue = memory_.fabric().now() - since > memory_.lease();
    if (is_overdue && memory_.rules().evicts_passed_ranks) return memory_.team().evict(rank, deadline);
    if (!pauses.sleep(deadline)) return Outcome::timed_out;
  }
  return memory_.revoke(rank, deadline);
}

}  // namespace farside::gas
