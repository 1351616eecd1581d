// seat.h — what a rank of farside's contender has at hand.
#pragma once

#include <span>
#include <vector>

#include "bench/comm/amounts.h"
#include "bench/harness/seat.h"

namespace farside::bench {

struct CommSeat : Seat {
  /// Waits until `word` of this rank's `region` has come to `value`.
  template <SharedWord Word>
  void wait_for(const SymmetricRegion& region, std::uint64_t offset, std::uint64_t value, Deadline deadline,
                std::span<const Rank> peers = {}) const {
    const auto come = [value](std::uint64_t now) { return now >= value; };
    check(channel->wait_until(region.local(), region.local().word<Word>(offset), come, deadline, peers),
          "waiting for a word");
  }

  std::vector<std::byte> source = std::vector<std::byte>(kLargestBytes, std::byte{1});
};

}  // namespace farside::bench
