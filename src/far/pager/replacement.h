// replacement.h — which pages stay near, judged from faults alone: the hardware's own notes of use are not ours to
// read.
//
// Like S3-FIFO, with a stamp in each page's word in place of queues. A page comes on probation. One that left and is
// wanted again before as many others came as there is room for is taken into `main`, which a scan does not sweep out:
// of a loop over more than there is room for, main keeps a part, where least-recently-used would keep nothing. Its term
// in main is limited, since no event tells whether it is still used there: a page that is still wanted comes back at
// the price of a fault.
//
// Time is counted in arrivals: an epoch is a sixteenth of the budget. What is clean leaves before what must be carried,
// so what a program writes again and again stays, as if locked (the paper's section 6 found that by hand).
#pragma once

#include <atomic>
#include <cstdint>

#include "far/pager/page_table.h"

namespace farside::far {

class Replacement {
 public:
  explicit Replacement(std::uint64_t budget_pages);

  /// The word of a page that comes, with what is to be known of it later. Thread safe.
  [[nodiscard]] PageWord arriving(PageWord word);
  /// The same of one that goes, or is forgotten.
  [[nodiscard]] PageWord leaving(PageWord word);

  /// How hard room is looked for: at each level more pages may leave, at the last all but the pinned.
  static constexpr int kLevels = 4;
  [[nodiscard]] bool may_leave(PageWord word, int level, std::uint64_t pages_here) const;

 private:
  [[nodiscard]] std::uint16_t now() const;
  [[nodiscard]] unsigned age(PageWord word) const { return static_cast<std::uint16_t>(now() - word.stamp()); }
  [[nodiscard]] bool belongs_to_main(PageWord word);

  const std::uint64_t budget_;
  const std::uint64_t epoch_;  ///< in arrivals
  std::atomic<std::uint64_t> arrivals_{0};
  std::atomic<std::uint64_t> main_{0};      ///< of the pages here
  std::atomic<std::uint32_t> returned_{0};  ///< while main was full
};

}  // namespace farside::far
