#include "far/pager/page_table.h"

#include "base/assert.h"
#include "far/pager/futex.h"
#include "far/time_limits.h"

namespace farside::far {

PageWord PageTable::lock(PageNumber page) {
  for (;;) {
    const PageWord seen = load(page);
    if (seen.state() == PageState::locked) {
      await_unlocked(page);
    } else if (try_lock(page, seen)) {
      return seen;
    }
  }
}

void PageTable::unlock(PageNumber page, PageWord next) {
  const std::uint32_t before = words_[page].exchange(next.bits(), std::memory_order_acq_rel);
  assert_that(PageWord(before).state() == PageState::locked, "a page that is unlocked was locked until then");
  if ((before & PageWord::kWaited) != 0) futex_wake_all(words_[page]);
}

// The holder of a lock gives it back after a bounded time: what it waits for has deadlines of its own.
void PageTable::await_unlocked(PageNumber page) {
  for (;;) {
    std::uint32_t bits = words_[page].load(std::memory_order_acquire);
    if (PageWord(bits).state() != PageState::locked) return;
    if ((bits & PageWord::kWaited) != 0 || words_[page].compare_exchange_strong(bits, bits | PageWord::kWaited)) {
      futex_wait(words_[page], bits | PageWord::kWaited, time_limits::kPageLook);
    }
  }
}

}  // namespace farside::far
