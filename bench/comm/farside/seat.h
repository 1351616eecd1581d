// seat.h — what a rank of farside's contender has at hand.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "farside/comm/comm.h"

#include "bench/comm/amounts.h"

namespace farside::bench {

inline void check(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + " failed");
}
inline void check(const Ended& ended, const char* what) { check(ended.done(), what); }

struct Seat {
  [[nodiscard]] Deadline patience() const { return team->fabric().in(std::chrono::minutes(1)); }
  [[nodiscard]] Rank rank() const { return team->rank(); }
  [[nodiscard]] Rank size() const { return team->size(); }

  /// Waits until `word` of this rank's `region` has come to `value`.
  template <SharedWord Word>
  void wait_for(const SymmetricRegion& region, std::uint64_t offset, std::uint64_t value, Deadline deadline,
                std::span<const Rank> peers = {}) const {
    const auto come = [value](std::uint64_t now) { return now >= value; };
    check(
        channel->wait_until(region.local(), region.local().word<Word>(offset), come, deadline, peers) == Outcome::done,
        "waiting for a word");
  }

  std::unique_ptr<Team> team = join_team();
  Comm comm{*team};
  std::unique_ptr<Channel> channel = comm.open_channel();
  std::vector<std::byte> source = std::vector<std::byte>(kLargestBytes, std::byte{1});
};

}  // namespace farside::bench
