#include "kv/replication/copies_journal.h"

namespace farside::kv {

void CopiesJournal::append(std::span<const std::byte> request, std::span<const TakenPlace> places) {
  disk_.append(request);
  shipping_->append(request, places);
}

// The standby's disk works while this one does.
bool CopiesJournal::sync() {
  const bool is_shipped = shipping_->sync();
  const bool is_kept = disk_.keep();
  if (is_shipped && !is_kept)
    (void)shipping_->step();  // which is not called while something is owed: the standby may be dead
  return is_shipped && is_kept && shipping_->await_taking();
}

MemoryUse CopiesJournal::with_state(MemoryUse use) const { return disk_.with_state(shipping_->with_state(use)); }

bool CopiesJournal::step() {
  const bool has_shipped = shipping_->step();
  note_whether_alone();
  return disk_.step() || has_shipped;
}

bool CopiesJournal::claim_to_be_followed() {
  return !rules_.disowns_before_teaching || disk_.claim(CopyStanding::primary, epoch_);
}

// Nothing waits for it: as long as the disk does not say so, this copy waits for the other one when both are started
// again.
void CopiesJournal::note_whether_alone() {
  if (disk_.claim().standing != CopyStanding::primary || disk_.claim().epoch != epoch_) return;
  if (shipping_->standing() == ShippingJournal::Standing::alone) (void)disk_.claim(CopyStanding::alone, epoch_);
}

}  // namespace farside::kv
