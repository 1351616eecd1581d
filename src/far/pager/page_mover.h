// page_mover.h — brings pages when they are touched, and carries them away. docs/protocols/far_pager.md has the steps.
//
// Guarantees: a read finds what was written last, wherever the page was meanwhile. What is clean is never written to
// the space; what holds only zeros is not kept there. At most the budget is here.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "far/pager/arena.h"
#include "far/pager/frames.h"
#include "far/pager/read_ahead.h"
#include "far/pager/replacement.h"
#include "far/pager/rules.h"
#include "far/pager/shuttle.h"
#include "far/pager/userfault.h"

namespace farside::far {

struct PagerCounts {
  std::uint64_t faults = 0;             ///< on pages that were not here
  std::uint64_t first_touches = 0;      ///< of these, on pages that never held anything
  std::uint64_t protection_faults = 0;  ///< first writes to clean pages
  std::uint64_t fetched_pages = 0;
  std::uint64_t ahead_pages = 0;  ///< of these, before they were asked for
  std::uint64_t ahead_hits = 0;   ///< and known to have been used
  std::uint64_t stored_pages = 0;
  std::uint64_t dropped_clean_pages = 0;
  std::uint64_t dropped_zero_pages = 0;
  std::uint64_t cancelled_evictions = 0;  ///< the page was written to while it left
  std::uint64_t nanoseconds_in_faults = 0;
};

/// Thread safety: every call, from any thread, each with a shuttle of its own; evict from one thread.
class PageMover {
 public:
  PageMover(Arena& arena, Userfault& userfault, std::uint64_t budget_pages, std::uint32_t most_ahead,
            std::chrono::milliseconds patience, PagerRules rules);

  /// Makes the access possible, unless it returns a failure. May be called for accesses that became possible meanwhile.
  [[nodiscard]] Result serve(PageNumber page, bool is_write, Shuttle& shuttle);
  /// Carries off some pages, `wanted` at most; says how many, and why not all that were chosen.
  struct Evicted {
    std::uint64_t pages;
    Result result;
  };
  [[nodiscard]] Evicted evict(std::uint64_t wanted, Shuttle& shuttle);
  /// They are zeros afterwards, here and there.
  void discard(PageNumber first, PageNumber count, Shuttle& shuttle);
  /// Says how many pages are pinned now that were not, or less than nothing.
  std::int64_t advise(PageNumber first, PageNumber count, Hint hint);

  [[nodiscard]] Frames& frames() { return frames_; }
  [[nodiscard]] PagerCounts counts() const;

 private:
  /// Locked pages, with the words they had; a fixed place, since fault handlers take no memory.
  struct Held {
    std::array<PageNumber, Shuttle::kPages> pages;
    std::array<PageWord, Shuttle::kPages> words;
    std::size_t count = 0;

    void add(PageNumber page, PageWord word) {
      pages.at(count) = page;
      words.at(count++) = word;
    }
    [[nodiscard]] std::span<const PageNumber> list() const { return {pages.data(), count}; }
    void sort();
  };

  [[nodiscard]] Result bring(PageNumber page, PageWord word, bool is_write, Shuttle& shuttle);
  void hold_ahead(PageNumber page, PageWord word, Held& held);
  void map(const Held& held, PageNumber wanted, bool is_write, Shuttle& shuttle);
  void make_writable(PageNumber page, PageWord word);

  [[nodiscard]] Held choose(std::size_t wanted);
  [[nodiscard]] Evicted drop_clean(const Held& held);
  [[nodiscard]] Evicted carry(const Held& held, Shuttle& shuttle);
  [[nodiscard]] std::uint64_t drop_zeros(const Held& held, Shuttle& shuttle);
  [[nodiscard]] Held lock_what_stayed(const Held& held);
  void put_back(const Held& held);
  void forget(const Held& held);
  void let_go_of_others(PageNumber page, Held& held);

  Arena& arena_;
  Userfault& userfault_;
  const std::chrono::milliseconds patience_;  ///< for a page to leave
  const PagerRules rules_;
  PageTable table_;
  Frames frames_;
  Replacement replacement_;
  ReadAhead read_ahead_;

  // Of the evictor.
  PageNumber hand_ = 0;
  int level_ = 0;
  unsigned batches_at_level_ = 0;
  std::atomic<PageNumber> end_{0};  ///< no page from here on was ever touched

  struct {
    std::atomic<std::uint64_t> faults, first_touches, protection_faults, fetched_pages, ahead_pages, ahead_hits,
        stored_pages, dropped_clean_pages, dropped_zero_pages, cancelled_evictions, nanoseconds_in_faults;
  } counted_{};
};

}  // namespace farside::far
