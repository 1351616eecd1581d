#include "far/daemon/slots.h"

#include <algorithm>

#include "farside/base/rounding.h"

#include "base/assert.h"

namespace farside::far {

Slots::Slots(std::unique_ptr<PageIo> keeper, Slot count)
    : count_(count), counts_(count), used_of_(div_ceil(count, kGroup)), keeper_(std::move(keeper)) {}

std::uint64_t Slots::used() {
  const MutexLock lock(mutex_);
  return used_;
}

std::uint32_t Slots::size_of(std::uint32_t group) const { return std::min(kGroup, count_ - begin_of(group)); }

// Into the set where it is found again, if anything in it is free.
void Slots::file(std::uint32_t group) {
  const std::uint32_t free = free_in(group);
  if (free == 0) return;
  const bool is_new = (free >= kWorthIt ? roomy_ : tight_).insert(group).second;
  assert_that(is_new, "a group that is filed is in no set");
}

void Slots::leave_group() {
  if (current_ != kNone) file(current_);
  current_ = kNone;
}

// Prefers a group with much free space to one that takes new memory. Takes the rest of a nearly full one when there is
// no other.
bool Slots::choose_group() {
  leave_group();
  const auto take_from = [this](std::set<std::uint32_t>& set)
                             REQUIRES(mutex_) { current_ = set.extract(set.begin()).value(); };
  if (!roomy_.empty()) {
    take_from(roomy_);
  } else if (!returned_.empty()) {
    current_ = returned_.back();
    returned_.pop_back();
    assert_that(used_of_[current_] == 0, "a group that was given back is empty");
  } else if (fresh_ < used_of_.size()) {
    current_ = fresh_++;
  } else if (!tight_.empty()) {
    take_from(tight_);
  } else {
    return false;
  }
  cursor_ = begin_of(current_);
  return true;
}

std::optional<Slot> Slots::Access::take() {
  for (Slots& s = slots_;;) {
    s.mutex_.assume_held();
    if (s.current_ != kNone) {
      const Slot end = s.begin_of(s.current_) + s.size_of(s.current_);
      while (s.cursor_ < end && s.counts_[s.cursor_] != 0) ++s.cursor_;
      if (s.cursor_ < end) {
        ++s.counts_[s.cursor_];
        ++s.used_of_[s.current_];
        ++s.used_;
        return s.cursor_++;
      }
    }
    if (!s.choose_group()) {
      lacked_room_ = true;
      return std::nullopt;
    }
  }
}

void Slots::Access::release(Slot slot) {
  slots_.mutex_.assume_held();
  assert_that(slots_.counts_[slot] != 0, "a slot that is released is in use");
  if (--slots_.counts_[slot] != 0) return;
  const std::uint32_t group = slot / kGroup;
  --slots_.used_;
  slots_.roomy_.erase(group);
  slots_.tight_.erase(group);
  if (--slots_.used_of_[group] == 0) {
    if (group == slots_.current_) slots_.current_ = kNone;
    emptied_.push_back(group);
  } else if (group != slots_.current_) {
    slots_.file(group);
  }
}

Slots::Access::~Access() {
  lock_.unlock();
  if (!emptied_.empty() || lacked_room_) slots_.give_back(emptied_);
}

// They are in no set meanwhile. What cannot be erased now is erased before it is used again: no attempt that timed out
// takes effect after the keeper's next one has begun. A thread that finds another one at it leaves its groups to that
// one: the keeper may wait for a node that does not answer, and faults and evictions end here as well.
void Slots::give_back(const std::vector<std::uint32_t>& groups) {
  MutexLock lock(mutex_);
  unerased_.insert(unerased_.end(), groups.begin(), groups.end());
  if (is_erasing_) return;
  is_erasing_ = true;
  while (!unerased_.empty()) {
    const std::uint32_t group = unerased_.back();
    unerased_.pop_back();
    lock.unlock();
    const Status erased = keeper_->erase(begin_of(group), size_of(group));
    lock.lock();
    if (erased != Status::done) {
      unerased_.insert(unerased_.begin(), group);  // the others first, the next time
      break;
    }
    returned_.push_back(group);
  }
  is_erasing_ = false;
}

}  // namespace farside::far
