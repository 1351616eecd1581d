#include "far/pager/page_mover.h"

#include <algorithm>
#include <chrono>

#include "far/pager/end.h"

namespace farside::far {

namespace {

alignas(kPageBytes) constexpr std::array<std::byte, Shuttle::kPages * kPageBytes> kZeros{};

void must(int error, const char* what) {
  if (error != 0) end_process(what, error);
}

void add(std::atomic<std::uint64_t>& counter, std::uint64_t by) { counter.fetch_add(by, std::memory_order_relaxed); }

}  // namespace

PageMover::PageMover(Arena& arena, Userfault& userfault, std::uint64_t budget_pages, std::uint32_t most_ahead,
                     std::chrono::milliseconds patience, PagerRules rules)
    : arena_(arena),
      userfault_(userfault),
      patience_(patience),
      rules_(rules),
      table_(static_cast<PageNumber>(arena.bytes() / kPageBytes)),
      frames_(budget_pages),
      replacement_(budget_pages),
      read_ahead_(std::min<std::uint32_t>(most_ahead, Shuttle::kPages - 1)) {}

void PageMover::Held::sort() {
  std::array<std::size_t, Shuttle::kPages> order{};
  for (std::size_t i = 0; i < count; ++i) order.at(i) = i;
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
            [this](std::size_t a, std::size_t b) { return pages.at(a) < pages.at(b); });
  const Held before = *this;
  for (std::size_t i = 0; i < count; ++i) {
    pages.at(i) = before.pages.at(order.at(i));
    words.at(i) = before.words.at(order.at(i));
  }
}

// The page may be changing: whoever locked it is waited for, and then it is looked at anew.
Result PageMover::serve(PageNumber page, bool is_write, Shuttle& shuttle) {
  for (;;) {
    const PageWord word = table_.load(page);
    switch (word.state()) {
      case PageState::untouched:
      case PageState::far:
        if (table_.try_lock(page, word)) return bring(page, word, is_write, shuttle);
        break;
      case PageState::locked: table_.await_unlocked(page); break;
      case PageState::clean:
      case PageState::leaving:
        if (is_write) {
          if (!table_.try_lock(page, word)) break;
          make_writable(page, word);
        } else {
          userfault_.wake(arena_.at(page), kPageBytes);
        }
        return Result::done;
      case PageState::dirty: userfault_.wake(arena_.at(page), kPageBytes); return Result::done;
    }
  }
}

// A page that was leaving stays: its bytes in the space are old from here on, and the evictor finds it dirty.
void PageMover::make_writable(PageNumber page, PageWord word) {
  add(counted_.protection_faults, 1);
  if (word.state() == PageState::leaving) add(counted_.cancelled_evictions, 1);
  must(userfault_.unprotect(arena_.at(page), kPageBytes), "let a page of far memory be written to");
  table_.unlock(page, word.with(PageState::dirty));
}

Result PageMover::bring(PageNumber page, PageWord word, bool is_write, Shuttle& shuttle) {
  const auto begin = std::chrono::steady_clock::now();
  const bool is_far = word.state() == PageState::far;
  if (!frames_.take_one(patience_)) {
    table_.unlock(page, word);
    return Result::full;
  }
  Held held;
  held.add(page, word);
  hold_ahead(page, word, held);
  held.sort();

  if (is_far) {
    Result result = shuttle.fetch(held.list());
    if (result != Result::done && held.count > 1) {  // perhaps because of a page that nobody asked for
      let_go_of_others(page, held);
      result = shuttle.fetch(held.list());
    }
    if (result != Result::done) {
      table_.unlock(page, word);
      frames_.give(1);
      return result;
    }
    add(counted_.fetched_pages, held.count);
    add(counted_.ahead_pages, held.count - 1);
  } else {
    add(counted_.first_touches, 1);
  }
  add(counted_.faults, 1);
  map(held, page, is_write, shuttle);
  add(counted_.nanoseconds_in_faults, static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count()));
  return Result::done;
}

void PageMover::let_go_of_others(PageNumber page, Held& held) {
  Held alone;
  for (std::size_t i = 0; i < held.count; ++i) {
    if (held.pages.at(i) == page) {
      alone.add(page, held.words.at(i));
    } else {
      table_.unlock(held.pages.at(i), held.words.at(i));
    }
  }
  frames_.give(held.count - 1);
  held = alone;
}

// Pages like this one that will be wanted next, as many as there is room for.
void PageMover::hold_ahead(PageNumber page, PageWord word, Held& held) {
  const ReadAhead::Window window = read_ahead_.after_fault(page, word.hint() == Hint::sequential);
  add(counted_.ahead_hits, window.hits);
  const std::uint64_t room = frames_.take_spare(window.count);
  for (std::uint32_t i = 1; i <= window.count && held.count <= room; ++i) {
    const std::int64_t other = page + window.stride * static_cast<std::int64_t>(i);
    if (other < 0 || other >= table_.size()) break;
    const auto ahead = static_cast<PageNumber>(other);
    const PageWord seen = table_.load(ahead);
    if (seen.state() == word.state() && table_.try_lock(ahead, seen)) held.add(ahead, seen);
  }
  frames_.give(room - (held.count - 1));
}

// What comes from the space comes protected, so that the first write to it is seen; but not the page that is just being
// written to. A page of zeros cannot come protected, and is taken for dirty until its bytes are looked at.
void PageMover::map(const Held& held, PageNumber wanted, bool is_write, Shuttle& shuttle) {
  PageNumber end = end_.load(std::memory_order_relaxed);
  while (held.pages.at(held.count - 1) >= end && !end_.compare_exchange_weak(end, held.pages.at(held.count - 1) + 1)) {
  }
  const bool is_far = held.words.at(0).state() == PageState::far;
  const auto is_written = [&](PageNumber page) { return !is_far || (is_write && page == wanted); };
  const auto map_piece = [&](std::size_t begin, std::size_t length) {
    std::byte* const to = arena_.at(held.pages.at(begin));
    const std::size_t bytes = length * kPageBytes;
    const bool is_protected = !is_written(held.pages.at(begin));
    const int error = is_far     ? userfault_.copy(to, shuttle.buffer() + begin * kPageBytes, bytes, is_protected)
                      : is_write ? userfault_.copy(to, kZeros.data(), bytes, false)
                                 : userfault_.map_zeros(to, bytes);
    must(error, "map a page of far memory");
  };
  for_each_run(held.list(), [&](std::size_t begin, std::size_t length) {
    std::size_t piece = begin;
    for (std::size_t i = begin + 1; i <= begin + length; ++i) {
      if (i < begin + length && is_written(held.pages.at(i)) == is_written(held.pages.at(i - 1))) continue;
      map_piece(piece, i - piece);
      piece = i;
    }
  });
  for (std::size_t i = 0; i < held.count; ++i) {
    const PageState next = is_written(held.pages.at(i)) ? PageState::dirty : PageState::clean;
    table_.unlock(held.pages.at(i), replacement_.arriving(held.words.at(i)).with(next));
  }
}

// What is stored is erased all at once, so that memory of which nothing is left is given back, and before anybody may
// touch the pages again: until then they belong to nobody.
void PageMover::discard(PageNumber first, PageNumber count, Shuttle& shuttle) {
  Held held;
  bool any_stored = false;
  const PageNumber end = std::min(first + count, end_.load());
  for (PageNumber page = first; page < end; ++page) {
    const PageWord seen = table_.load(page);
    if (seen.state() == PageState::untouched && !seen.stored()) continue;
    held.add(page, table_.lock(page));
    any_stored |= held.words.at(held.count - 1).stored();
    if (held.count < held.pages.size()) continue;
    forget(held);
    held.count = 0;
  }
  forget(held);
  // What cannot be erased is never asked for: it takes room, and no more.
  if (any_stored) (void)shuttle.erase(first, end - first);
}

// A page that was leaving may still be on its way: it counts as stored, so that it is erased another time.
void PageMover::forget(const Held& held) {
  arena_.drop(held.list());
  std::uint64_t freed = 0;
  for (std::size_t i = 0; i < held.count; ++i) {
    const PageWord word = held.words.at(i);
    if (word.present()) ++freed;
    const PageWord next = word.present() ? replacement_.leaving(word) : word;
    table_.unlock(held.pages.at(i), next.with(PageState::untouched).with_stored(word.state() == PageState::leaving));
  }
  frames_.give(freed);
}

std::int64_t PageMover::advise(PageNumber first, PageNumber count, Hint hint) {
  std::int64_t newly_pinned = 0;
  for (PageNumber page = first; page < first + count; ++page) {
    const PageWord word = table_.lock(page);
    newly_pinned += (hint == Hint::pinned ? 1 : 0) - (word.hint() == Hint::pinned ? 1 : 0);
    table_.unlock(page, word.with_hint(hint));
  }
  return newly_pinned;
}

PagerCounts PageMover::counts() const {
  const auto value = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  return {.faults = value(counted_.faults),
          .first_touches = value(counted_.first_touches),
          .protection_faults = value(counted_.protection_faults),
          .fetched_pages = value(counted_.fetched_pages),
          .ahead_pages = value(counted_.ahead_pages),
          .ahead_hits = value(counted_.ahead_hits),
          .stored_pages = value(counted_.stored_pages),
          .dropped_clean_pages = value(counted_.dropped_clean_pages),
          .dropped_zero_pages = value(counted_.dropped_zero_pages),
          .cancelled_evictions = value(counted_.cancelled_evictions),
          .nanoseconds_in_faults = value(counted_.nanoseconds_in_faults)};
}

}  // namespace farside::far
