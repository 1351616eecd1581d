// barrier_mark.h — one word that says which barrier a rank has reached.
//
//   63..48 epoch         of the team, as the rank knew it
//   47..24 count         of the barriers that the rank has reached in this epoch
//   23..0  count before  of those that it had reached in the epoch before; 0 when it had reached none
//
// A rank may be in its next barrier before another has looked at the last one: within an epoch its count is then one
// more, and across a loss or a return the count before still tells. Numbers wrap around: no rank is half a round ahead.
#pragma once

#include <cstdint>

namespace farside::team {

struct BarrierMark {
  std::uint16_t epoch = 0;
  std::uint32_t count = 0;
  std::uint32_t count_before = 0;

  static constexpr std::uint32_t kCountMask = (1U << 24U) - 1;

  [[nodiscard]] static constexpr BarrierMark from_word(std::uint64_t word) {
    return {static_cast<std::uint16_t>(word >> 48U), static_cast<std::uint32_t>(word >> 24U) & kCountMask,
            static_cast<std::uint32_t>(word) & kCountMask};
  }
  [[nodiscard]] constexpr std::uint64_t word() const {
    return std::uint64_t{epoch} << 48U | std::uint64_t{count} << 24U | count_before;
  }

  /// That of the next barrier, or of the same one once more in case this rank has not passed it.
  [[nodiscard]] constexpr BarrierMark next(std::uint16_t now, bool passed) const {
    if (now == epoch) return {epoch, count == 0 || passed ? (count + 1) & kCountMask : count, count_before};
    const bool is_the_epoch_after = static_cast<std::uint16_t>(epoch + 1) == now;
    return {now, 1, is_the_epoch_after ? count : 0};
  }

  [[nodiscard]] constexpr bool has_arrived_at(const BarrierMark& barrier) const {
    if (epoch == barrier.epoch) return reaches(count, barrier.count);
    return epoch == static_cast<std::uint16_t>(barrier.epoch + 1) && reaches(count_before, barrier.count);
  }
  [[nodiscard]] constexpr bool is_of_later_epoch_than(const BarrierMark& barrier) const {
    return static_cast<std::int16_t>(epoch - barrier.epoch) > 0;
  }

 private:
  static constexpr bool reaches(std::uint32_t count, std::uint32_t wanted) {
    return ((count - wanted) & kCountMask) <= kCountMask / 2;
  }
};

}  // namespace farside::team
