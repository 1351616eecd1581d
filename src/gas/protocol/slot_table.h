// slot_table.h — which of this rank's slots are free, and what page each of the others was filled with.
//
// A rank is not told that a page has left it: it finds out when it needs a slot, from the directory. So "filled" means
// that the page has been there, and may be.
//
// Thread safety: every call, from any thread. It never waits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "gas/protocol/words.h"

namespace farside::gas {

class SlotTable {
 public:
  explicit SlotTable(std::uint64_t slots);

  /// A free one, if there is any. It is the caller's until it is filled or given back.
  [[nodiscard]] std::optional<std::uint64_t> take();
  void give_back(std::uint64_t slot);
  /// While the entry has the word `in_doubt`, it is unknown whether the move has been published.
  void fill(std::uint64_t slot, PageId page, std::optional<Location> in_doubt = {});

  struct Filled {
    std::uint64_t slot;
    PageId page;
    std::optional<Location> in_doubt;
    std::uint64_t fill;  ///< which of all times that a slot was filled
  };
  /// The next of those that are filled, at most so many, going round.
  [[nodiscard]] std::vector<Filled> next_filled(std::uint64_t most);
  [[nodiscard]] std::vector<PageId> pages() const;
  /// The page has left it. Not if it was filled anew meanwhile.
  void empty(const Filled& slot);

 private:
  mutable Mutex mutex_;
  std::vector<std::optional<Filled>> contents_ GUARDED_BY(mutex_);  // by slot; none for those that are free or taken
  std::vector<std::uint64_t> free_ GUARDED_BY(mutex_);
  std::uint64_t fills_ GUARDED_BY(mutex_) = 0;
  std::uint64_t hand_ GUARDED_BY(mutex_) = 0;  // where next_filled goes on
};

}  // namespace farside::gas
