// read_ahead.h — what will be wanted next, from the faults so far.
//
// As in Leap (Al Maruf and Chowdhury, 2020) the stride is what most of the last faults agree on. Unlike there, each
// region of the arena that is walked through has a history of its own, so that a program may go through a dozen arrays
// at once.
//
// A page mover has two: for pages that are fetched, and for pages that become writable together.
//
// No event tells which pages of a window were used. But the page right after the window is a sample of them: when the
// walk comes to that page next, all count as used; when it comes further on, none. So the counts are right in the long
// run, also for a walk that leaves pages out.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/mutex.h"
#include "far/pager/page_table.h"

namespace farside::far {

/// Pages that one fault fetches ahead at most.
inline constexpr std::uint32_t kMaxAheadPages = 32;

/// Thread safety: every call, from any thread and from fault handlers.
class ReadAhead {
 public:
  explicit ReadAhead(std::uint32_t most) : most_(most) {}

  struct Window {
    std::int64_t stride = 0;
    std::uint32_t count = 0;  ///< page + stride, page + 2 stride, ...
    std::uint32_t hits = 0;   ///< pages of the last one that are thought to have been used
  };
  [[nodiscard]] Window after_fault(PageNumber page, bool is_sequential);

 private:
  struct Walk {
    std::int64_t last = -1;  ///< page that faulted
    std::int64_t stride = 0;
    std::uint32_t count = 0;
    // As judged from its last few windows.
    bool leaves_out = false;  ///< pages
    bool is_sparse = false;   ///< it leaves out more than it uses
    // Since it was judged.
    std::uint32_t windows = 0;  ///< windows that it got beyond
    std::uint32_t wanted = 0;   ///< windows whose next page was used right after them
    std::int64_t common = 0;    ///< divides the steps from each of the latter to the next
    std::array<std::int64_t, 8> steps{};
    std::size_t steps_taken = 0;
    std::uint64_t used_at = 0;
  };

  [[nodiscard]] Walk& walk_of(std::int64_t page) REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t go_on(Walk& walk, std::int64_t steps) const REQUIRES(mutex_);
  static void judge(Walk& walk);
  [[nodiscard]] static std::int64_t steps_along(const Walk& walk, std::int64_t page);
  // How a stride is found (a heuristic; the safety rules are in rules.h): where most of the last steps agree on one,
  // and else where all go one way.
  [[nodiscard]] static std::optional<std::int64_t> stride_of(const Walk& walk);
  [[nodiscard]] static std::optional<std::int64_t> majority(const Walk& walk);
  [[nodiscard]] static std::optional<std::int64_t> drift(const Walk& walk);

  const std::uint32_t most_;
  Mutex mutex_;  // never held by a thread that could fault
  std::array<Walk, 32> walks_ GUARDED_BY(mutex_);
  std::uint64_t faults_ GUARDED_BY(mutex_) = 0;
};

}  // namespace farside::far
