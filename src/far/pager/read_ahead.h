// read_ahead.h — what will be wanted next, from the faults so far.
//
// As in Leap (Al Maruf and Chowdhury, 2020) the stride is what most of the last faults agree on. Unlike there, each
// region of the arena that is walked through has a history of its own, so that a program may go through a dozen arrays
// at once; and a window grows only when all of the last one was used, which shows in the next fault coming right after
// it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "far/pager/page_table.h"

namespace farside::far {

/// Thread safety: every call, from any thread and from fault handlers.
class ReadAhead {
 public:
  explicit ReadAhead(std::uint32_t most) : most_(most) {}

  struct Window {
    std::int64_t stride = 0;
    std::uint32_t count = 0;  ///< page + stride, page + 2 stride, ...
    std::uint32_t hits = 0;   ///< pages of the last one that were used, since the program came to this one over them
  };
  [[nodiscard]] Window after_fault(PageNumber page, bool is_sequential);

 private:
  struct Walk {
    std::int64_t last = -1;  ///< page that faulted
    std::int64_t stride = 0;
    std::uint32_t count = 0;
    std::array<std::int64_t, 8> steps{};
    std::size_t steps_taken = 0;
    std::uint64_t used_at = 0;
  };

  [[nodiscard]] Walk& walk_of(std::int64_t page);
  [[nodiscard]] static std::int64_t steps_along(const Walk& walk, std::int64_t page);
  [[nodiscard]] static std::optional<std::int64_t> majority(const Walk& walk);
  [[nodiscard]] static std::optional<std::int64_t> drift(const Walk& walk, std::size_t known);

  const std::uint32_t most_;
  std::mutex mutex_;  // held by nobody who could fault
  std::array<Walk, 32> walks_;
  std::uint64_t faults_ = 0;
};

}  // namespace farside::far
