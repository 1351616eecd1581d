// words.h — the words that ranks share about pages, packed: each fits 8 bytes, so that no reader can mix two states.
//
//   Location where a page is          moving (1 bit)   closed (1)   version (24)   owner (12)   slot (26)
//   Sharers  32 ranks that may have   changes (32)     a bit for each rank (32)
//            a page's place cached
//   Hold     what a thread is at      pinned (1)   given up (1)   turn (14)     count (8)    first page (40)
#pragma once

#include <algorithm>
#include <cstdint>

#include "farside/gas/page.h"
#include "farside/team/team.h"

namespace farside::gas {

/// A page's entry in the directory. `version` advances whenever the page has moved or a move was given up, so a
/// COMPARE_SWAP by a rank whose lock was taken away before fails.
struct Location {
  static constexpr unsigned kSlotBits = 26;
  static constexpr unsigned kOwnerBits = 12;
  static constexpr unsigned kVersionBits = kPageVersionBits;

  team::Rank owner = 0;
  std::uint64_t slot = 0;
  std::uint64_t version = 0;
  bool moving = false;  ///< locked: puts wait
  bool closed = false;  ///< and gets, since a rank whose puts were not awaited may still write there

  [[nodiscard]] static constexpr Location from_word(std::uint64_t word) {
    const auto bits = [word](unsigned at, unsigned count) { return word >> at & ((std::uint64_t{1} << count) - 1); };
    return {static_cast<team::Rank>(bits(kSlotBits, kOwnerBits)), bits(0, kSlotBits),
            bits(kSlotBits + kOwnerBits, kVersionBits), bits(63, 1) != 0, bits(62, 1) != 0};
  }
  [[nodiscard]] constexpr std::uint64_t word() const {
    const std::uint64_t wrapped = version & ((std::uint64_t{1} << kVersionBits) - 1);
    return std::uint64_t{moving} << 63U | std::uint64_t{closed} << 62U | wrapped << (kSlotBits + kOwnerBits) |
           std::uint64_t{owner} << kSlotBits | slot;
  }

  [[nodiscard]] constexpr Location locked() const { return {owner, slot, version, true}; }
  [[nodiscard]] constexpr Location without_gets() const { return {owner, slot, version, true, true}; }
  /// The lock belongs to another rank from now on.
  [[nodiscard]] constexpr Location taken_over() const { return {owner, slot, version + 1, true}; }
  [[nodiscard]] constexpr Location left_alone() const { return {owner, slot, version + 1, false}; }
  [[nodiscard]] constexpr Location moved_to(team::Rank to, std::uint64_t to_slot) const {
    return {to, to_slot, version + 1, false};
  }

  friend constexpr bool operator==(const Location& a, const Location& b) { return a.word() == b.word(); }
};
static_assert(2 + Location::kVersionBits + Location::kOwnerBits + Location::kSlotBits == 64);
static_assert(Location{.version = ~std::uint64_t{0}}.word() >> (Location::kSlotBits + Location::kOwnerBits) ==
              (std::uint64_t{1} << kPageVersionBits) - 1);

/// A word of the set of ranks that may have a page's place cached. Every change counts, so that a COMPARE_SWAP that
/// lands late never finds the word as it was.
struct Sharers {
  static constexpr team::Rank kRanks = 32;

  std::uint32_t changes = 0;
  std::uint32_t ranks = 0;

  [[nodiscard]] static constexpr Sharers from_word(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32U), static_cast<std::uint32_t>(word)};
  }
  [[nodiscard]] constexpr std::uint64_t word() const { return std::uint64_t{changes} << 32U | ranks; }

  [[nodiscard]] constexpr bool has(team::Rank in_word) const { return (ranks >> in_word & 1U) != 0; }
  [[nodiscard]] constexpr Sharers with(team::Rank in_word) const { return {changes + 1, ranks | 1U << in_word}; }
  [[nodiscard]] constexpr Sharers without_any() const { return {changes + 1, 0}; }
};

/// The pages that a thread is putting to, or has pinned. Zero: none.
struct Hold {
  static constexpr std::uint64_t kPageBits = 40;
  static constexpr std::uint64_t kMany = 255;  ///< that many pages or more: all from `first` on
  static constexpr std::uint64_t kTurns = 1U << 14U;

  PageId first = 0;
  std::uint64_t count = 0;
  std::uint64_t turn = 0;  ///< differs from the last one's, so that a waiting rank sees that this is another hold
  bool pinned = false;     ///< by a program, for as long as it likes
  /// The puts' deadline has passed, and they may still land. Their rank has not stopped: it knows, and ends the hold
  /// when they cannot land any more.
  bool given_up = false;

  [[nodiscard]] static constexpr Hold from_word(std::uint64_t word) {
    return {word & ((std::uint64_t{1} << kPageBits) - 1), word >> 40U & 0xff, word >> 48U & (kTurns - 1),
            word >> 63U != 0, (word >> 62U & 1U) != 0};
  }
  [[nodiscard]] constexpr std::uint64_t word() const {
    if (count == 0) return 0;
    return std::uint64_t{pinned} << 63U | std::uint64_t{given_up} << 62U | turn % kTurns << 48U | count << 40U | first;
  }

  [[nodiscard]] constexpr bool has(PageId page) const {
    return count != 0 && page >= first && (count == kMany || page < first + count);
  }
  /// It is the same hold, of more pages perhaps.
  [[nodiscard]] constexpr bool continues(const Hold& earlier) const { return count != 0 && turn == earlier.turn; }
  /// The least that has `page` as well.
  [[nodiscard]] constexpr Hold with(PageId page) const {
    if (count == 0) return {page, 1, turn, pinned, given_up};
    const PageId begin = std::min(first, page);
    const PageId end = std::max(first + count, page + 1);
    return {begin, count == kMany ? kMany : std::min(end - begin, kMany), turn, pinned, given_up};
  }
};
static_assert(Hold{.first = 5, .count = 3, .turn = 7, .given_up = true}.word() == 0x4007'0300'0000'0005);
static_assert(Hold{.first = 5, .count = 3, .turn = 7, .pinned = true}.word() == 0x8007'0300'0000'0005);

}  // namespace farside::gas
