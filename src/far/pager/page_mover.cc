#include "far/pager/page_mover.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/assert.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

alignas(kPageBytes) constexpr std::array<std::byte, PageIo::kPages * kPageBytes> kZeros{};

}  // namespace

PageMover::PageMover(PagedMemory& memory, const Userfault& userfault, Frames& frames, std::uint32_t most_ahead,
                     std::chrono::milliseconds fault_timeout, PagerRules rules, PageObserver* observer)
    : memory_(memory),
      userfault_(userfault),
      fault_timeout_(fault_timeout),
      rules_(rules),
      observer_(observer),
      table_(memory.pages()),
      frames_(frames),
      replacement_(frames.budget()),
      read_ahead_(std::min<std::uint32_t>(most_ahead, PageIo::kPages - 1)),
      write_ahead_(std::min<std::uint32_t>(most_ahead, PageIo::kPages - 1)) {}

void PageMover::note(PageEvent event, const Held& held) {
  for_each_run(held.list(), [&](std::size_t begin, std::size_t length) { note(event, held.pages.at(begin), length); });
}

// ESRCH is no failure: the process is gone, and it does not matter what becomes of its pages.
void PageMover::must(int error, std::string_view tried) {
  if (error == 0 || error == ESRCH) return;
  const char* const why = ::strerrordesc_np(error);
  memory_.fail(tried, why != nullptr ? why : "unknown error");
}

void PageMover::raise_end(PageNumber end) {
  assert_that(end <= table_.size(), "no page behind the table is touched");
  PageNumber seen = end_.load(std::memory_order_relaxed);
  while (end > seen && !end_.compare_exchange_weak(seen, end)) {
  }
}

PageWord PageMover::settled(PageNumber page) {
  for (;;) {
    const PageWord word = table_.load(page);
    if (word.state() != PageState::locked) return word;
    table_.await_unlocked(page);
  }
}

void PageMover::begin_with(PageNumber page, PageState state) {
  const PageWord before = table_.lock(page);
  assert_that(before.state() == PageState::untouched, "nothing happened to a page before it begins");
  raise_end(page + 1);
  if (state == PageState::far) return table_.unlock(page, before.with(state).with_stored(true));
  frames_.overdraw(1);
  add(here_, 1);
  table_.unlock(page, replacement_.arriving(before).with(state));
}

PageMover::~PageMover() { frames_.give(pages_here()); }

void PageMover::Held::sort() {
  std::array<std::size_t, PageIo::kPages> order{};
  for (std::size_t i = 0; i < count; ++i) order.at(i) = i;
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
            [this](std::size_t a, std::size_t b) { return pages.at(a) < pages.at(b); });
  const Held before = *this;
  for (std::size_t i = 0; i < count; ++i) {
    pages.at(i) = before.pages.at(order.at(i));
    words.at(i) = before.words.at(order.at(i));
  }
}

// The page may be changing: the call waits until it is unlocked, and looks at it anew.
Status PageMover::serve(PageNumber page, bool is_write, PageIo& page_io) {
  for (;;) {
    const PageWord word = table_.load(page);
    switch (word.state()) {
      case PageState::untouched:
      case PageState::far:
        if (table_.try_lock(page, word)) return bring(page, word, is_write, page_io);
        break;
      case PageState::locked: table_.await_unlocked(page); break;
      case PageState::clean:
      case PageState::leaving:
        if (is_write) {
          if (!table_.try_lock(page, word)) break;
          make_writable(page, word);
        } else {
          userfault_.wake(memory_.at(page), kPageBytes);
        }
        return Status::done;
      case PageState::dirty: userfault_.wake(memory_.at(page), kPageBytes); return Status::done;
      case PageState::foreign: serve_foreign(page); return Status::done;
    }
  }
}

// Something else is there by now, or soon.
void PageMover::serve_foreign(PageNumber page) {
  if (userfault_.map_zeros(memory_.at(page), kPageBytes) != 0) userfault_.wake(memory_.at(page), kPageBytes);
}

// A page that was leaving stays: its bytes in the space are old from here on, and the evictor finds it dirty. Clean
// ones that will be written to next, as the faults so far say, become dirty with this one.
void PageMover::make_writable(PageNumber page, PageWord word) {
  add(counted_.protection_faults, 1);
  Held held;
  held.add(page, word);
  if (word.state() == PageState::leaving) {
    add(counted_.cancelled_evictions, 1);
  } else {
    hold_ahead(page, word, write_ahead_.after_fault(page, word.hint() == Hint::sequential), PageIo::kPages, held);
    held.sort();
  }
  note(PageEvent::written, held);
  put_back(held);
}

// During a fork no page leaves. None leaves when the process is gone either, though a process that shares its memory
// may still touch it. Then the frames are overdrawn.
bool PageMover::take_frame() {
  if (frames_.take_one(std::chrono::milliseconds(0))) return true;
  const auto give_up = std::chrono::steady_clock::now() + fault_timeout_;
  while (!eviction_gate_.barred() && !memory_.is_gone()) {
    if (frames_.take_one(time_limits::kFrameLook)) return true;
    if (std::chrono::steady_clock::now() >= give_up) return false;
  }
  frames_.overdraw(1);
  return true;
}

Status PageMover::bring(PageNumber page, PageWord word, bool is_write, PageIo& page_io) {
  const auto begin = std::chrono::steady_clock::now();
  const bool is_far = word.state() == PageState::far;
  if (!take_frame()) {
    table_.unlock(page, word);
    return Status::full;
  }
  Held held;
  held.add(page, word);
  const ReadAhead::Window window = read_ahead_.after_fault(page, word.hint() == Hint::sequential);
  add(counted_.ahead_hits, window.hits);
  if (is_far) note(PageEvent::used_ahead, page, window.hits);
  const std::uint64_t room = frames_.take_spare(window.count);
  hold_ahead(page, word, window, room, held);
  assert_that(held.count - 1 <= room, "each page that is held ahead has a frame");
  frames_.give(room - (held.count - 1));
  held.sort();

  if (is_far) {
    Status status = page_io.fetch(held.list());
    if (status != Status::done && held.count > 1) {  // perhaps because of a page that was only fetched ahead
      let_go_of_others(page, held);
      status = page_io.fetch(held.list());
    }
    if (status != Status::done) {
      table_.unlock(page, word);
      frames_.give(1);
      return status;
    }
    add(counted_.fetched_pages, held.count);
    note(PageEvent::fetched, held);
    if (is_write) note(PageEvent::written, page, 1);
  } else {
    add(counted_.first_touches, 1);
  }
  add(counted_.faults, 1);
  add(counted_.ahead_pages, held.count - 1);
  map(held, page, is_write, page_io);
  add(counted_.nanoseconds_in_faults, static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count()));
  return Status::done;
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

// Pages like this one that will be wanted next, `most` of them.
void PageMover::hold_ahead(PageNumber page, PageWord word, const ReadAhead::Window& window, std::uint64_t most,
                           Held& held) {
  for (std::uint32_t i = 1; i <= window.count && held.count <= most; ++i) {
    const std::int64_t other = page + window.stride * static_cast<std::int64_t>(i);
    if (other < 0 || other >= table_.size()) break;
    const auto ahead = static_cast<PageNumber>(other);
    const PageWord seen = table_.load(ahead);
    if (seen.state() == word.state() && table_.try_lock(ahead, seen)) held.add(ahead, seen);
  }
}

// A page that comes from the space comes protected, so that the first write to it is seen; but not the page that is
// just being written to. A page of zeros cannot come protected, and is taken for dirty until its bytes are looked at.
struct PageMover::Mapping {
  const Held& held;
  PageNumber wanted;
  bool is_write;
  const std::byte* bytes;

  [[nodiscard]] bool is_far() const { return held.words.at(0).state() == PageState::far; }
  [[nodiscard]] PageState next(std::size_t i) const {
    return !is_far() || (is_write && held.pages.at(i) == wanted) ? PageState::dirty : PageState::clean;
  }
  [[nodiscard]] int map(const Userfault& userfault, std::byte* to, std::size_t begin, std::size_t count) const {
    const std::size_t size = count * kPageBytes;
    if (is_far()) return userfault.copy(to, bytes + begin * kPageBytes, size, next(begin) == PageState::clean);
    return is_write ? userfault.copy(to, kZeros.data(), size, false) : userfault.map_zeros(to, size);
  }
};

void PageMover::map(const Held& held, PageNumber wanted, bool is_write, PageIo& page_io) {
  raise_end(held.pages.at(held.count - 1) + 1);
  const Mapping mapping{held, wanted, is_write, page_io.buffer()};
  std::uint64_t absent = 0;
  const auto map_piece = [&](std::size_t begin, std::size_t length) {
    const int error = mapping.map(userfault_, memory_.at(held.pages.at(begin)), begin, length);
    for (std::size_t i = begin; i < begin + length; ++i) {
      const PageWord word = held.words.at(i);
      assert_that((word.state() == PageState::far) == mapping.is_far(),
                  "pages that come together are all far, or none");
      const PageState next = error == 0 ? mapping.next(i) : map_alone(mapping, i);
      if (next == word.state()) ++absent;
      table_.unlock(held.pages.at(i), next == word.state() ? word : replacement_.arriving(word).with(next));
    }
  };
  for_each_run(held.list(), [&](std::size_t begin, std::size_t length) {
    std::size_t piece = begin;
    for (std::size_t i = begin + 1; i <= begin + length; ++i) {
      if (i < begin + length && mapping.next(i) == mapping.next(i - 1)) continue;
      map_piece(piece, i - piece);
      piece = i;
    }
  });
  add(here_, held.count - absent);
  frames_.give(absent);
}

// After a piece could not be mapped as a whole. The program may have changed its mappings since the fault, or since a
// page was last here: what is there is there, and where nothing can be mapped the page stays where it is.
PageState PageMover::map_alone(const Mapping& mapping, std::size_t i) {
  std::byte* const to = memory_.at(mapping.held.pages.at(i));
  const int error = mapping.map(userfault_, to, i, 1);
  if (error == ENOENT) {
    userfault_.wake(to, kPageBytes);
    return mapping.held.words.at(i).state();
  }
  if (error == EEXIST) {
    must(userfault_.unprotect(to, kPageBytes), "let a page of far memory be written to");
    return PageState::dirty;
  }
  must(error, "map a page of far memory");
  return mapping.next(i);
}

void PageMover::discard(PageNumber first, PageNumber count, PageIo& page_io) {
  empty(first, std::min(first + count, end_.load()), PageState::untouched, page_io);
}

void PageMover::give_away(PageNumber first, PageNumber count, PageIo& page_io) {
  raise_end(first + count);
  empty(first, first + count, PageState::foreign, page_io);
}

// All that is stored is erased in one call, so that memory of which nothing is left is given back. It is erased before
// any thread may touch the pages again: until then they have no owner.
void PageMover::empty(PageNumber first, PageNumber end, PageState next, PageIo& page_io) {
  const EvictionGate::Passage passage(eviction_gate_);
  Held held;
  bool any_stored = false;
  for (PageNumber page = first; page < end; ++page) {
    const PageWord seen = table_.load(page);
    if (seen.state() == PageState::foreign || (seen.state() == next && !seen.stored())) continue;
    held.add(page, table_.lock(page));
    any_stored |= held.words.at(held.count - 1).stored();
    if (held.count < held.pages.size()) continue;
    forget(held, next);
    held.count = 0;
  }
  forget(held, next);
  // Bytes that cannot be erased are never asked for: they take room, and no more.
  if (any_stored) (void)page_io.erase(first, end - first);
}

// A page that was leaving may still be on its way: it counts as stored, so that it is erased another time.
void PageMover::forget(const Held& held, PageState next) {
  Held here;
  for (std::size_t i = 0; i < held.count; ++i) {
    if (held.words.at(i).present()) here.add(held.pages.at(i), held.words.at(i));
  }
  memory_.drop(here.list());
  for (std::size_t i = 0; i < held.count; ++i) {
    const PageWord word = held.words.at(i);
    const PageWord left = word.present() ? replacement_.leaving(word) : word;
    table_.unlock(held.pages.at(i), left.with(next).with_stored(word.state() == PageState::leaving));
  }
  let_go(here.count);
}

std::int64_t PageMover::advise(PageNumber first, PageNumber count, Hint hint, Pinned pinned) {
  std::int64_t newly_pinned = 0;
  for (PageNumber page = first; page < first + count; ++page) {
    const PageWord word = table_.lock(page);
    const bool is_pinned = word.hint() == Hint::pinned;
    const PageWord next = is_pinned && pinned == Pinned::stay ? word : word.with_hint(hint);
    newly_pinned += (next.hint() == Hint::pinned ? 1 : 0) - (is_pinned ? 1 : 0);
    table_.unlock(page, next);
  }
  return newly_pinned;
}

PageNumber PageMover::not_pinned(PageNumber first, PageNumber count) {
  PageNumber others = 0;
  for (PageNumber page = first; page < first + count; ++page) others += settled(page).hint() != Hint::pinned ? 1 : 0;
  return others;
}

PagerCounts& PagerCounts::operator+=(const PagerCounts& other) {
  faults += other.faults;
  first_touches += other.first_touches;
  protection_faults += other.protection_faults;
  fetched_pages += other.fetched_pages;
  ahead_pages += other.ahead_pages;
  ahead_hits += other.ahead_hits;
  stored_pages += other.stored_pages;
  dropped_clean_pages += other.dropped_clean_pages;
  dropped_zero_pages += other.dropped_zero_pages;
  cancelled_evictions += other.cancelled_evictions;
  nanoseconds_in_faults += other.nanoseconds_in_faults;
  return *this;
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
