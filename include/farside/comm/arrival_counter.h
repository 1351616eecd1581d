// arrival_counter.h — a phase ends when as many copies have arrived as it expects; no barrier is needed (NICAM, 3.2).
//
//   sender      const auto arrival = counter.at(channel, rank, epoch, deadline);
//               if (arrival.ended.done()) comm.put(channel, to, from, arrival.notice);
//   receiver    counter.wait(channel, epoch, count, senders, deadline);  // from here on the data of `count` copies are
//   there
//
// Epochs are numbered from 0, by each receiver for itself. Each counts its own arrivals: what a fast sender sends in
// the next epoch is never taken for what a slow one still owes in this one. The next three may fill meanwhile; a sender
// that is ahead by more waits until the receiver has ended the epoch four before. So the data need the room of five
// epochs: four that fill, and one that has ended and is being read.
//
// Thread safety: every call, from any thread; each brings its own Channel. An epoch is awaited by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "farside/comm/comm.h"

namespace farside::comm {

class Arrivals;

class ArrivalCounter {
 public:
  /// For one copy to the rank it was made for: each is counted as one arrival.
  struct [[nodiscard]] Arrival {
    Status status;
    AddToWord notice;  ///< only when done
  };

  /// Collective. `comm` outlives this.
  explicit ArrivalCounter(Comm& comm);
  ~ArrivalCounter();
  ArrivalCounter(const ArrivalCounter&) = delete;
  ArrivalCounter& operator=(const ArrivalCounter&) = delete;

  /// Waits until `rank` counts `epoch`. Throws UsageError when the epoch is seen to have ended there.
  Arrival at(Channel& channel, team::Rank rank, std::uint64_t epoch, Deadline deadline);

  /// Waits for `count` arrivals here and ends the epoch. The loss of one of `senders` ends the wait and names it.
  /// Throws UsageError when more than `count` have arrived, or the epoch has ended before.
  Status wait(Channel& channel, std::uint64_t epoch, std::uint32_t count, std::span<const team::Rank> senders,
              Deadline deadline);

 private:
  Comm& comm_;
  std::unique_ptr<Arrivals> arrivals_;
};

}  // namespace farside::comm
