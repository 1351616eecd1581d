// seat.h — what a rank of farside's contender has at hand.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/comm/amounts.h"
#include "bench/harness/seat.h"

namespace farside::bench {

/// A value of a word of this rank's, and the rank that stores it.
struct AwaitedWord {
  const char* what;
  team::Rank from;
  std::uint64_t offset;
  std::uint64_t value;
};

struct CommSeat : Seat {
  /// Waits until `awaited` of this rank's `region` has come to its value. Throws an error that names it, its sender,
  /// and how all ended that this rank has issued: the sender may be waiting for that.
  template <SharedWord Word>
  void wait_for(const team::SymmetricRegion& region, const AwaitedWord& awaited, Deadline deadline,
                std::span<const team::Rank> peers = {}) const {
    const auto word = region.local().word<Word>(awaited.offset);
    const auto come = [value = awaited.value](std::uint64_t now) { return now >= value; };
    const Outcome outcome = channel->wait_until(region.local(), word, come, deadline, peers);
    if (outcome == Outcome::done) return;
    const comm::Status issued = comm.wait(*channel, comm.issued(), team->fabric().in(std::chrono::seconds(1)));
    throw std::runtime_error("rank " + std::to_string(rank()) + " waiting for " + awaited.what + " of rank " +
                             std::to_string(awaited.from) + ": " + std::string(to_string(outcome)) + ": its word is " +
                             std::to_string(word.load()) + ", not " + std::to_string(awaited.value) +
                             "; what this rank has issued: " + std::string(to_string(issued.outcome)));
  }

  std::vector<std::byte> source = std::vector<std::byte>(kLargestBytes, std::byte{1});
};

}  // namespace farside::bench
