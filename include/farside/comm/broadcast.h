// broadcast.h — from one rank's memory to the same place at all members that want it (NICAM, 3.2). Not the collective
// operation, which is Collectives::broadcast.
//
// The sender need not hold the data, nor be a member. It reads the data once and writes it to each member that it
// reaches by memory, where no other process takes part. If large data goes to more than two other members, each of them
// passes it on to two more, on its service thread: then the sender's link carries the data twice, however many members
// there are. For that all ranks must know the memory (`passed_on`).
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "farside/comm/comm.h"

namespace farside::comm {

class Broadcast {
 public:
  /// Smaller data the sender writes to each member itself: passing on costs a step through a member's service thread.
  static constexpr std::uint64_t kTreeBytes = 1U << 20U;

  /// At each receiver, once all the data is visible there: `value` in the ControlWord at `offset`.
  struct Signal {
    std::uint64_t offset;
    std::uint64_t value;
  };

  /// Collective over the team, with the same `members` at all ranks; none are all ranks. What goes to regions that are
  /// `passed_on`, the same in the same order at all ranks, receivers pass on. `comm` and these regions outlive this.
  explicit Broadcast(Comm& comm, std::vector<team::Rank> members = {},
                     const std::vector<const team::SymmetricRegion*>& passed_on = {});
  /// Nothing is passed on here any more. Collective in that nothing is under way.
  ~Broadcast();
  Broadcast(const Broadcast&) = delete;
  Broadcast& operator=(const Broadcast&) = delete;

  /// Sends to `offset` of `memory`, which outlives the Request, at each member that does not discard it. The Request
  /// ends with a member's loss; the others have the data nevertheless, except members to which the lost one was to pass
  /// it on. Then data under way between others may still arrive; send it again to another place, without a tree from
  /// then on. Throws Error when the data or the signal does not fit.
  Request send(Channel& channel, const team::SymmetricRegion& memory, std::uint64_t offset, RemoteSpan from,
               Signal signal);

  /// From here on this rank gets neither data nor signals, or gets them again. What is sent at this very moment may go
  /// either way. A rank that discards passes nothing on.
  void discard(bool on);

 private:
  class Impl;
  class Sending;
  std::shared_ptr<Impl> impl_;  ///< kept by what is in the background
};

}  // namespace farside::comm
