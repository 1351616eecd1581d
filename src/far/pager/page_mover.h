// page_mover.h — brings pages when they are touched, and carries them away. docs/protocols/far_pager.md has the steps.
//
// Guarantees: a read finds what was written last, wherever the page was meanwhile. What is clean is never written to
// the space; what holds only zeros is not kept there. Whatever is here has a frame of the budget.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "far/pager/eviction_gate.h"
#include "far/pager/frames.h"
#include "far/pager/page_io.h"
#include "far/pager/page_observer.h"
#include "far/pager/paged_memory.h"
#include "far/pager/read_ahead.h"
#include "far/pager/replacement.h"
#include "far/pager/rules.h"
#include "far/pager/userfault.h"

namespace farside::far {

struct PagerCounts {
  std::uint64_t faults = 0;             ///< on pages that were not here
  std::uint64_t first_touches = 0;      ///< of these, on pages that never held anything
  std::uint64_t protection_faults = 0;  ///< first writes to clean pages
  std::uint64_t fetched_pages = 0;
  std::uint64_t ahead_pages = 0;  ///< that came before they were asked for, zeros as well,
  std::uint64_t ahead_hits = 0;   ///< and thought to have been used
  std::uint64_t stored_pages = 0;
  std::uint64_t dropped_clean_pages = 0;
  std::uint64_t dropped_zero_pages = 0;
  std::uint64_t cancelled_evictions = 0;  ///< the page was written to while it left
  std::uint64_t nanoseconds_in_faults = 0;

  PagerCounts& operator+=(const PagerCounts& other);
};

/// Thread safety: every call, from any thread, each with a page I/O object of its own; evict from one thread.
class PageMover {
 public:
  /// Movers may share `frames`. An observer is told what pages do.
  PageMover(PagedMemory& memory, const Userfault& userfault, Frames& frames, std::uint32_t most_ahead,
            std::chrono::milliseconds fault_timeout, PagerRules rules, PageObserver* observer = nullptr);
  /// Its frames are others' again.
  ~PageMover();
  PageMover(const PageMover&) = delete;
  PageMover& operator=(const PageMover&) = delete;

  /// Makes the access possible, unless it returns a failure. May be called for accesses that became possible meanwhile.
  [[nodiscard]] Status serve(PageNumber page, bool is_write, PageIo& page_io);
  /// Carries off some pages, `wanted` at most; says how many, and why not all that were chosen.
  struct Evicted {
    std::uint64_t pages;
    Status status;
  };
  [[nodiscard]] Evicted evict(std::uint64_t wanted, PageIo& page_io);
  /// They are zeros afterwards, here and there.
  void discard(PageNumber first, PageNumber count, PageIo& page_io);
  /// The pages are foreign afterwards, as something else is mapped there: they do not come, not even ahead of others.
  void give_away(PageNumber first, PageNumber count, PageIo& page_io);
  enum class Pinned : std::uint8_t { change, stay };
  /// Gives pages the hint: all, or those that are not pinned. Returns how many are pinned now that were not, or less
  /// than nothing.
  std::int64_t advise(PageNumber first, PageNumber count, Hint hint, Pinned pinned = Pinned::change);
  /// How many would be pinned that are not.
  [[nodiscard]] PageNumber not_pinned(PageNumber first, PageNumber count);

  [[nodiscard]] PagerCounts counts() const;
  [[nodiscard]] std::uint64_t pages_here() const { return here_.load(std::memory_order_relaxed); }

  // To make one that begins with what another has: a fork.

  /// While one barred them, faults find a frame in any case.
  [[nodiscard]] EvictionGate& eviction_gate() { return eviction_gate_; }
  /// No page from here on was ever touched.
  [[nodiscard]] PageNumber end() const { return end_.load(); }
  /// Its word, once it is not locked.
  [[nodiscard]] PageWord settled(PageNumber page);
  /// Before any other call: it is in the space, or here and unprotected; the latter overdraws the frames, if need be.
  void begin_with(PageNumber page, PageState state);
  /// From here on `end` is at least this.
  void raise_end(PageNumber end);
  /// Makes the page foreign. Requires: as begin_with, before any other call.
  void leave_out(PageNumber page) { table_.unlock(page, table_.lock(page).with(PageState::foreign)); }

 private:
  /// Locked pages, with the words they had; a fixed place, since fault handlers take no memory.
  struct Held {
    std::array<PageNumber, PageIo::kPages> pages;
    std::array<PageWord, PageIo::kPages> words;
    std::size_t count = 0;

    void add(PageNumber page, PageWord word) {
      pages.at(count) = page;
      words.at(count++) = word;
    }
    [[nodiscard]] std::span<const PageNumber> list() const { return {pages.data(), count}; }
    void sort();
  };

  [[nodiscard]] bool take_frame();
  [[nodiscard]] Status bring(PageNumber page, PageWord word, bool is_write, PageIo& page_io);
  void hold_ahead(PageNumber page, PageWord word, const ReadAhead::Window& window, std::uint64_t most, Held& held);
  struct Mapping;
  void map(const Held& held, PageNumber wanted, bool is_write, PageIo& page_io);
  [[nodiscard]] PageState map_alone(const Mapping& mapping, std::size_t i);
  void make_writable(PageNumber page, PageWord word);
  void serve_foreign(PageNumber page);
  void note(PageEvent event, PageNumber page, std::uint64_t count) {
    if (observer_ != nullptr && count != 0) observer_->note(event, page, count);
  }
  void note(PageEvent event, const Held& held);

  /// To a counter, which orders nothing.
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    counter.fetch_add(by, std::memory_order_relaxed);
  }
  void must(int error, std::string_view tried);
  [[nodiscard]] Held choose(std::size_t wanted);
  [[nodiscard]] Evicted drop_clean(const Held& held);
  [[nodiscard]] Evicted carry(const Held& held, PageIo& page_io);
  [[nodiscard]] std::uint64_t drop_zeros(const Held& held, PageIo& page_io);
  using ChangeOfProtection = int (Userfault::*)(std::byte* base, std::size_t bytes) const;
  void change_protection(const Held& held, ChangeOfProtection change, std::string_view tried);
  [[nodiscard]] static Held split_off_zeros(Held& held, PageIo& page_io);
  [[nodiscard]] Status store(Held& leaving, PageIo& page_io);
  [[nodiscard]] Held lock_what_stayed(const Held& held);
  void put_back(const Held& held);
  void let_go(std::uint64_t count);
  void empty(PageNumber first, PageNumber end, PageState next, PageIo& page_io);
  void forget(const Held& held, PageState next);
  void let_go_of_others(PageNumber page, Held& held);

  PagedMemory& memory_;
  const Userfault& userfault_;
  const std::chrono::milliseconds fault_timeout_;  ///< for a page to leave
  const PagerRules rules_;
  PageObserver* const observer_;
  PageTable table_;
  Frames& frames_;
  Replacement replacement_;
  ReadAhead read_ahead_;
  ReadAhead write_ahead_;  ///< of first writes to clean pages
  EvictionGate eviction_gate_;
  std::atomic<std::uint64_t> here_{0};

  // The next three are used by evict alone.
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
