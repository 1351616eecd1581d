// page_layout.h — where in each rank's piece of the memory things lie. The same at all ranks.
//
//   0           opened        AtomicWord    the holds up to here have been in use
//   64          distrusted    AtomicWord    of 64 ranks each: they must have lost their access before a slot is used
//                                           again
//   holds       hold[256]     ControlWord   one for each thread, and one for each span that is pinned
//   revoked     revoked[...]  AtomicWord    a counter for the pages that share a place in the cache of this rank
//   entries     entry[...]                  of the pages whose home this rank is: page = index * ranks + rank
//                 place       AtomicWord
//                 sharers[]   AtomicWord    32 ranks each
//   slots       slot[...]     Bulk          the pages themselves
#pragma once

#include <bit>
#include <cstdint>

#include "farside/base/rounding.h"

#include "base/assert.h"
#include "gas/protocol/words.h"

namespace farside::gas {

struct PageShape {
  std::uint64_t pages = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t slots = 0;  ///< at each rank
  std::uint64_t cached_places =
      0;  ///< that a rank remembers; at least; those of two congruent pages exclude each other
};

class PageLayout {
 public:
  static constexpr std::uint64_t kHolds = 256;

  PageLayout(const PageShape& shape, team::Rank ranks) noexcept
      : shape_(shape),
        cached_places_mask_(std::bit_ceil(shape.cached_places) - 1),
        ranks_(ranks),
        sharer_words_(div_ceil(ranks, Sharers::kRanks)),
        holds_(round_up(kLine + 8 * div_ceil(ranks, 64), kLine)),
        revoked_(holds_ + 8 * kHolds),
        entries_(round_up(revoked_ + 8 * cached_places(), kLine)),
        slots_(round_up(entries_ + entry_bytes() * entries(), kFrame)) {}

  [[nodiscard]] const PageShape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::uint64_t region_bytes() const noexcept { return slots_ + shape_.slots * shape_.page_bytes; }

  [[nodiscard]] team::Rank home_of(PageId page) const noexcept { return static_cast<team::Rank>(page % ranks_); }
  [[nodiscard]] std::uint64_t sharer_words() const noexcept { return sharer_words_; }
  /// The most pages at this home.
  [[nodiscard]] std::uint64_t entries() const noexcept { return div_ceil(shape_.pages, ranks_); }
  [[nodiscard]] std::uint64_t entry_bytes() const noexcept { return 8 * (1 + sharer_words_); }
  /// The number of pages that a rank remembers: a power of two, since a division would be a good part of what a get
  /// costs.
  [[nodiscard]] std::uint64_t cached_places() const noexcept { return cached_places_mask_ + 1; }
  [[nodiscard]] std::uint64_t cached_at(PageId page) const noexcept { return page & cached_places_mask_; }

  // Offsets.
  static constexpr std::uint64_t kOpened = 0;
  [[nodiscard]] static std::uint64_t distrusted(team::Rank rank) noexcept {
    return kLine + 8 * (std::uint64_t{rank} / 64);
  }
  [[nodiscard]] std::uint64_t hold(std::uint64_t index) const noexcept { return holds_ + 8 * index; }
  [[nodiscard]] std::uint64_t revoked(PageId page) const noexcept { return revoked_ + 8 * cached_at(page); }
  [[nodiscard]] std::uint64_t first_entry() const noexcept { return entries_; }
  [[nodiscard]] std::uint64_t place(PageId page) const noexcept {
    assert_in_tests(page < shape_.pages, "a page that has an entry is one of the pages");
    return entries_ + entry_bytes() * (page / ranks_);
  }
  [[nodiscard]] std::uint64_t sharers(PageId page, std::uint64_t word) const noexcept {
    return place(page) + 8 * (1 + word);
  }
  [[nodiscard]] std::uint64_t slot(std::uint64_t slot) const noexcept {
    assert_in_tests(slot < shape_.slots, "a slot was looked at before it is believed");
    return slots_ + slot * shape_.page_bytes;
  }

 private:
  static constexpr std::uint64_t kLine = 64;
  static constexpr std::uint64_t kFrame = 4096;  ///< so that slots of such a size are not spread over two

  PageShape shape_;
  std::uint64_t cached_places_mask_;
  team::Rank ranks_;
  std::uint64_t sharer_words_;
  std::uint64_t holds_;
  std::uint64_t revoked_;
  std::uint64_t entries_;
  std::uint64_t slots_;
};

}  // namespace farside::gas
