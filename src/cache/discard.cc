#include "cache/discard.h"

#include <algorithm>

#include "base/assert.h"
#include "cache/pause.h"

namespace farside::cache {

std::optional<std::uint32_t> Discarder::take_slot(Channel& channel, Deadline deadline) {
  Pause pause(team_.fabric());
  const Time start = team_.fabric().now();
  for (;;) {
    if (const auto slot = slot_index_.take_free()) return slot;

    const auto candidate = slot_index_.take_candidate();
    if (!candidate) {  // every slot is being filled or emptied by another thread
      if (!rules_.slot_outlives_lease && team_.fabric().now() - start >= loading_lease_) return 0;
      if (!pause.wait_before(deadline)) return std::nullopt;
      continue;
    }
    try {
      Standing standing = examine(channel, *candidate, deadline);
      if (standing.singlet && !candidate->was_singlet) {
        slot_index_.keep_singlet(candidate->slot, team_.fabric().now());
        continue;
      }
      discard(channel, *candidate, std::move(standing), deadline);
    } catch (...) {
      slot_index_.restore(*candidate, team_.fabric().now());
      throw;
    }
    return candidate->slot;
  }
}

Discarder::Standing Discarder::examine(Channel& channel, const SlotIndex::Candidate& candidate,
                                       Deadline deadline) const {
  const BlockId id = block_id(candidate.key);
  const Place ours{team_.rank(), candidate.slot};

  Standing standing;
  standing.row = directory_.find(channel, id, deadline);
  standing.alternative = alternative_.find(channel, id, deadline);
  const auto is_another_copy = [&](Place place) { return place != ours && slots_.reachable(place); };
  if (standing.alternative && !is_another_copy(*standing.alternative)) standing.alternative.reset();

  bool listed_elsewhere = false;
  if (standing.row) {
    for (std::uint32_t group = 0; group < standing.row->cells.size(); ++group) {
      const Cell cell = standing.row->cell(group);
      listed_elsewhere |= cell.state == Cell::State::loaded && is_another_copy(cell.place());
      standing.representative |= cell.names(ours) && group == group_;
    }
  }
  standing.singlet = !listed_elsewhere && !standing.alternative;
  return standing;
}

void Discarder::discard(Channel& channel, const SlotIndex::Candidate& candidate, Standing standing, Deadline deadline) {
  const BlockId id = block_id(candidate.key);
  const Place ours{team_.rank(), candidate.slot};

  if (standing.representative) hand_over(channel, id, standing, deadline);
  alternative_.erase(channel, id, ours, deadline);

  slot_index_.remove(candidate);
  slots_.retract(channel, candidate.slot);

  if (!rules_.discard_looks_again) return;
  // Another node may have handed its cell to us before it could see that our header is cleared.
  auto row = directory_.find(channel, id, deadline);
  if (row && row->cell(group_).names(ours)) {
    (void)directory_.change(channel, *row, group_, row->cell(group_).invalidated(), deadline);
  }
}

// Losing the race for the cell is fine: then it names another node by now.
void Discarder::hand_over(Channel& channel, BlockId id, Standing& standing, Deadline deadline) const {
  assert_that(standing.row.has_value(), "a representative's block has a row");
  const Cell ours = standing.row->cell(group_);
  if (!standing.alternative) {
    (void)directory_.change(channel, *standing.row, group_, ours.invalidated(), deadline);
    return;
  }
  const Cell theirs = ours.loaded_at(*standing.alternative);
  if (!directory_.change(channel, *standing.row, group_, theirs, deadline)) return;
  if (rules_.discard_looks_again && !slots_.holds(channel, id, *standing.alternative, deadline)) {
    (void)directory_.change(channel, *standing.row, group_, theirs.invalidated(), deadline);
  }
}

}  // namespace farside::cache
