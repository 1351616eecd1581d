// copy_claim.h — what one of a partition's two copies, each of which is on a disk of its own, says of itself, and which
// of the two goes on when neither is in a process's memory (docs/protocols/kv_replication.md, "Copies on disks").
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace farside::kv {

enum class CopyStanding : std::uint32_t {
  none,     ///< there has never been a copy
  begun,    ///< the first one was begun, and is not whole
  former,   ///< the other one has been served since
  standby,  ///< it has all that its primary acknowledged, or had, at some time of its epoch
  primary,  ///< it is that of the epoch's primary, whose standby may have been promoted since
  alone,    ///< and no standby may be promoted: the other copy has nothing that it has not
};

struct CopyClaim {
  CopyStanding standing = CopyStanding::none;
  std::uint64_t epoch = 0;
  std::uint64_t store = 0;  ///< a number that another store's copies do not have; 0: it has none yet

  [[nodiscard]] constexpr bool is_primarys() const noexcept { return standing >= CopyStanding::primary; }
  friend constexpr bool operator==(const CopyClaim&, const CopyClaim&) = default;
};

/// The claim of a copy with which an operator goes on although the other one may have more: above all that the other
/// may have claimed meanwhile, and above what an operator chose before. `now`: wall time, in seconds.
[[nodiscard]] constexpr CopyClaim preferred(const CopyClaim& claim, std::uint64_t now) noexcept {
  constexpr unsigned kEpochsOfAChoice = 32;  // as a power of two: more deaths than a pool will see until the next one
  return {CopyStanding::alone, std::max(claim.epoch + (std::uint64_t{1} << kEpochsOfAChoice), now << kEpochsOfAChoice),
          claim.store};
}

/// For messages: "the primary's of epoch 3".
[[nodiscard]] std::string to_string(const CopyClaim& claim);

enum class Successor : std::uint8_t { first_seat, second_seat, neither };

/// The seat whose copy goes on. Neither: the copy that has all that was acknowledged is not there, or cannot be told.
/// `is_new`: the store has just been made, so two copies that are not there yet are not lost.
[[nodiscard]] Successor successor_of(const CopyClaim& first, const CopyClaim& second, bool is_new);

}  // namespace farside::kv
