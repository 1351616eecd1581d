#include "far/daemon/slot_map.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace farside::far {

SlotMap::SlotMap(Slots& slots, PageNumber pages, DaemonRules rules) : slots_(slots), rules_(rules), slots_of_(pages) {}

SlotMap::~SlotMap() { erase(0, end_); }

void SlotMap::set(PageNumber page, Slot slot) {
  slots_of_[page] = slot + 1;
  end_ = std::max(end_, page + 1);
}

void SlotMap::hold(std::span<const PageNumber> pages, List& slots) {
  Slots::Access access(slots_);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    slots.at(i) = get(pages[i]);
    if (slots.at(i) != kNone) access.share(slots.at(i));
  }
}

// One that a relative has too is left to it. When there is not room for all, nothing was changed.
bool SlotMap::hold_to_store(std::span<const PageNumber> pages, List& slots) {
  Slots::Access access(slots_);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const Slot before = get(pages[i]);
    const bool is_own = before != kNone && (access.count(before) == 1 || !rules_.spares_shared_slots);
    const auto slot = is_own ? std::optional(before) : access.take();
    if (!slot) {
      for (std::size_t k = 0; k < i; ++k) {
        if (slots.at(k) != get(pages[k])) access.release(slots.at(k));
      }
      return false;
    }
    slots.at(i) = *slot;
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const Slot before = get(pages[i]);
    access.share(slots.at(i));
    if (before == slots.at(i)) continue;
    if (before != kNone) access.release(before);
    set(pages[i], slots.at(i));
  }
  return true;
}

void SlotMap::release(std::span<const Slot> held) {
  Slots::Access access(slots_);
  for (const Slot slot : held) {
    if (slot != kNone) access.release(slot);
  }
}

void SlotMap::erase(PageNumber first, PageNumber count) {
  Slots::Access access(slots_);
  const PageNumber end = std::min(end_, first + count);
  for (PageNumber page = first; page < end; ++page) {
    if (slots_of_[page] == 0) continue;
    access.release(get(page));
    slots_of_[page] = 0;
  }
}

void SlotMap::share_with(SlotMap& other, std::span<const PageNumber> pages) {
  Slots::Access access(slots_);
  for (const PageNumber page : pages) {
    if (slots_of_[page] == 0) continue;
    assert_that(other.slots_of_[page] == 0, "a child has no slots of its own yet");
    access.share(get(page));
    other.set(page, get(page));
  }
}

std::vector<bool> SlotMap::stored(PageNumber first, PageNumber count) {
  const Slots::Access access(slots_);
  std::vector<bool> is_stored(count);
  for (PageNumber i = 0; i < count; ++i) is_stored[i] = slots_of_[first + i] != 0;
  return is_stored;
}

// A page that has no slot any more was discarded since it became `far`: it is zeros. The others are asked for alone,
// and then spread to their places, the last first.
Status SlotPageIo::fetch(std::span<const PageNumber> pages) {
  SlotMap::List held;
  map_.hold(pages, held);
  SlotMap::List slots;
  std::size_t count = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (held.at(i) != SlotMap::kNone) slots.at(count++) = held.at(i);
  }
  const Status status = count == 0 ? Status::done : to_slots_->fetch({slots.data(), count});
  for (std::size_t i = pages.size(); i-- > 0;) {
    std::byte* const place = buffer() + i * kPageBytes;
    if (held.at(i) == SlotMap::kNone) {
      std::memset(place, 0, kPageBytes);
    } else if (--count != i) {
      std::memcpy(place, buffer() + count * kPageBytes, kPageBytes);
    }
  }
  map_.release({held.data(), pages.size()});
  return status;
}

// One that timed out may still take effect, but not after the next store to the same slot began.
Status SlotPageIo::store(std::span<const PageNumber> pages) {
  SlotMap::List slots;
  if (!map_.hold_to_store(pages, slots)) return Status::full;
  const std::span<const Slot> list{slots.data(), pages.size()};
  const Status status = to_slots_->store(list);
  map_.release(list);
  return status;
}

Status SlotPageIo::erase(PageNumber first, PageNumber count) {
  map_.erase(first, count);
  return Status::done;
}

}  // namespace farside::far
