// The half of PageMover that carries pages away.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "far/pager/page_mover.h"

namespace farside::far {

namespace {

bool is_zero(const std::byte* page) { return *page == std::byte{} && std::memcmp(page, page + 1, kPageBytes - 1) == 0; }

constexpr unsigned kBatchesAtLevel = 64;  // before it is tried whether less hard looking finds room as well

}  // namespace

PageMover::Evicted PageMover::evict(std::uint64_t wanted, PageIo& page_io) {
  const EvictionGate::Passage passage(eviction_gate_);
  const Held chosen = choose(std::min<std::uint64_t>(wanted, PageIo::kPages));
  Held clean;
  Held dirty;
  for (std::size_t i = 0; i < chosen.count; ++i) {
    Held& kind = chosen.words.at(i).state() == PageState::clean ? clean : dirty;
    kind.add(chosen.pages.at(i), chosen.words.at(i));
  }
  const Evicted first = drop_clean(clean);
  const Evicted second = carry(dirty, page_io);
  return {first.pages + second.pages, second.status};
}

void PageMover::let_go(std::uint64_t count) {
  here_.fetch_sub(count, std::memory_order_relaxed);
  frames_.give(count);
}

// Goes over the memory like the hand of a clock; looks harder when a whole round brought too little.
PageMover::Held PageMover::choose(std::size_t wanted) {
  Held held;
  if (++batches_at_level_ > kBatchesAtLevel && level_ > 0) {
    --level_;
    batches_at_level_ = 0;
  }
  const PageNumber round = end_.load();
  for (PageNumber looked_at = 0; held.count < wanted && round != 0;) {
    if (hand_ >= round) hand_ = 0;
    const PageNumber page = hand_++;
    const PageWord word = table_.load(page);
    if (replacement_.may_leave(word, level_, pages_here()) && table_.try_lock(page, word)) held.add(page, word);
    if (++looked_at < round) continue;
    if (held.count != 0 || level_ == Replacement::kLevels - 1) break;
    looked_at = 0;
    ++level_;
    batches_at_level_ = 0;
  }
  held.sort();
  return held;
}

PageMover::Evicted PageMover::drop_clean(const Held& held) {
  memory_.drop(held.list());
  for (std::size_t i = 0; i < held.count; ++i) {
    table_.unlock(held.pages.at(i), replacement_.leaving(held.words.at(i)).with(PageState::far));
  }
  add(counted_.dropped_clean_pages, held.count);
  let_go(held.count);
  return {held.count, Status::done};
}

// 1. Protect, so that from here on a write is a fault. 2. Copy, and let writers in again: a write cancels the eviction
// of its page. 3. Write to the space. 4. Drop the pages that were not written to.
PageMover::Evicted PageMover::carry(const Held& held, PageIo& page_io) {
  if (rules_.protects_before_copying) change_protection(held, &Userfault::protect, "protect a page of far memory");
  if (!memory_.copy_out(held.list(), page_io.buffer())) {
    put_back(held);
    return {0, Status::done};
  }
  Held carried = held;
  const std::uint64_t dropped = drop_zeros(split_off_zeros(carried, page_io), page_io);
  if (carried.count == 0) return {dropped, Status::done};

  for (std::size_t i = 0; i < carried.count; ++i) {
    table_.unlock(carried.pages.at(i), carried.words.at(i).with(PageState::leaving).with_stored(true));
  }
  const Status status = store(carried, page_io);
  const Held stayed = lock_what_stayed(carried);
  if (status != Status::done) {
    put_back(stayed);
    return {dropped, status};
  }
  add(counted_.stored_pages, carried.count);
  note(PageEvent::stored, carried);
  memory_.drop(stayed.list());
  for (std::size_t i = 0; i < stayed.count; ++i) {
    table_.unlock(stayed.pages.at(i), replacement_.leaving(stayed.words.at(i)).with(PageState::far));
  }
  let_go(stayed.count);
  return {dropped + stayed.count, Status::done};
}

// Run by run; kernels before 6.5 do it only within one mapping, and a program may have split them.
void PageMover::change_protection(const Held& held, ChangeOfProtection change, std::string_view tried) {
  const auto try_run = [&](std::size_t begin, std::size_t length) {
    return (userfault_.*change)(memory_.at(held.pages.at(begin)), length * kPageBytes);
  };
  for_each_run(held.list(), [&](std::size_t begin, std::size_t length) {
    if (try_run(begin, length) == 0) return;
    for (std::size_t i = begin; i < begin + length; ++i) must(try_run(i, 1), tried);
  });
}

// The bytes of the others move up to the front of the buffer.
PageMover::Held PageMover::split_off_zeros(Held& held, PageIo& page_io) {
  Held zeros;
  Held rest;
  for (std::size_t i = 0; i < held.count; ++i) {
    const std::byte* const bytes = page_io.buffer() + i * kPageBytes;
    const bool zero = is_zero(bytes);
    if (!zero && rest.count != i) std::memcpy(page_io.buffer() + rest.count * kPageBytes, bytes, kPageBytes);
    (zero ? zeros : rest).add(held.pages.at(i), held.words.at(i));
  }
  held = rest;
  return zeros;
}

// When there is no room for all of them, each is tried alone: those for which there is a place go, the others stay.
Status PageMover::store(Held& leaving, PageIo& page_io) {
  if (!rules_.stores_before_dropping) return Status::done;
  const Status together = page_io.store(leaving.list());
  if (together != Status::full) return together;
  Held gone;
  Held homeless;
  for (std::size_t i = 0; i < leaving.count; ++i) {
    const PageNumber page = leaving.pages.at(i);
    if (i != 0) std::memcpy(page_io.buffer(), page_io.buffer() + i * kPageBytes, kPageBytes);
    const Status alone = page_io.store({&page, 1});
    if (alone != Status::done && alone != Status::full) return alone;
    (alone == Status::done ? gone : homeless).add(page, leaving.words.at(i));
  }
  if (gone.count == 0) return Status::full;
  put_back(lock_what_stayed(homeless));
  leaving = gone;
  return Status::done;
}

PageMover::Held PageMover::lock_what_stayed(const Held& held) {
  Held stayed;
  for (std::size_t i = 0; i < held.count; ++i) {
    const PageNumber page = held.pages.at(i);
    const PageWord word = table_.load(page);
    const bool stays =
        word.state() == PageState::leaving || (!rules_.drops_only_what_stayed && word.state() == PageState::dirty);
    if (stays && table_.try_lock(page, word)) stayed.add(page, word);
  }
  return stayed;
}

// They are locked and protected. Erased first: from when they are untouched, others may store them.
std::uint64_t PageMover::drop_zeros(const Held& held, PageIo& page_io) {
  Held erased;
  Held kept;
  for (std::size_t i = 0; i < held.count; ++i) {
    const bool erases = held.words.at(i).stored() && rules_.erases_what_turned_zero;
    const bool is_erased = !erases || page_io.erase(held.pages.at(i), 1) == Status::done;
    (is_erased ? erased : kept).add(held.pages.at(i), held.words.at(i));
  }
  put_back(kept);
  memory_.drop(erased.list());
  for (std::size_t i = 0; i < erased.count; ++i) {
    const PageWord word = replacement_.leaving(erased.words.at(i));
    const bool is_gone = rules_.erases_what_turned_zero || !word.stored();
    table_.unlock(erased.pages.at(i),
                  is_gone ? word.with(PageState::untouched).with_stored(false) : word.with(PageState::far));
  }
  add(counted_.dropped_zero_pages, erased.count);
  let_go(erased.count);
  return erased.count;
}

void PageMover::put_back(const Held& held) {
  change_protection(held, &Userfault::unprotect, "let a page of far memory be written to");
  for (std::size_t i = 0; i < held.count; ++i) {
    assert_that(held.words.at(i).present(), "a page that stays is here");
    table_.unlock(held.pages.at(i), held.words.at(i).with(PageState::dirty));
  }
}

}  // namespace farside::far
