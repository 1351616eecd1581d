#include "gas/protocol/slot_table.h"

#include "base/assert.h"

namespace farside::gas {

SlotTable::SlotTable(std::uint64_t slots) : contents_(slots) {
  free_.reserve(slots);
  for (std::uint64_t slot = slots; slot-- > 0;) free_.push_back(slot);  // the first is taken first
}

std::optional<std::uint64_t> SlotTable::take() {
  const MutexLock lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const std::uint64_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotTable::give_back(std::uint64_t slot) {
  const MutexLock lock(mutex_);
  assert_that(slot < contents_.size() && !contents_[slot], "a slot that is given back was not filled");
  assert_that(free_.size() < contents_.size(), "no slot is free twice");
  free_.push_back(slot);
}

void SlotTable::fill(std::uint64_t slot, PageId page, std::optional<Location> in_doubt) {
  const MutexLock lock(mutex_);
  assert_that(slot < contents_.size() && !contents_[slot], "a slot is empty when it is filled");
  contents_[slot] = Filled{slot, page, in_doubt, ++fills_};
}

std::vector<SlotTable::Filled> SlotTable::next_filled(std::uint64_t most) {
  const MutexLock lock(mutex_);
  std::vector<Filled> some;
  for (std::uint64_t looked = 0; looked < contents_.size() && some.size() < most; ++looked) {
    if (const auto& content = contents_[hand_]) some.push_back(*content);
    hand_ = (hand_ + 1) % contents_.size();
  }
  return some;
}

std::vector<PageId> SlotTable::pages() const {
  const MutexLock lock(mutex_);
  std::vector<PageId> pages;
  for (const auto& content : contents_) {
    if (content) pages.push_back(content->page);
  }
  return pages;
}

void SlotTable::empty(const Filled& slot) {
  const MutexLock lock(mutex_);
  std::optional<Filled>& content = contents_[slot.slot];
  if (!content || content->fill != slot.fill) return;
  content.reset();
  free_.push_back(slot.slot);
}

}  // namespace farside::gas
