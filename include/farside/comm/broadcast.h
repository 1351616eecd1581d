// broadcast.h — from one rank's memory to the same place at all members that want it (NICAM, 3.2).
//
// Whoever sends need not be the one who has the data, nor a member. The sender reads the data once and writes them to
// whom it reaches by memory, where nobody else takes part. Of what is large, and goes to more than two others, each of
// these passes it on to two more, on its service thread: then the sender's link carries the data twice, however many
// there are. For that all ranks must know the memory (`passed_on`).
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "farside/comm/comm.h"

namespace farside {

class Broadcast {
 public:
  /// What is smaller the sender writes to each itself: passing on costs a step through somebody's service thread.
  static constexpr std::uint64_t kTreeBytes = 1U << 20U;

  /// At each receiver, once all the data is visible there: `value` in the ControlWord at `offset`.
  struct Signal {
    std::uint64_t offset;
    std::uint64_t value;
  };

  /// Collective over the team, with the same `members` at all ranks; none are all ranks. What goes to regions that are
  /// `passed_on`, the same in the same order at all ranks, receivers pass on. `comm` and these regions outlive this.
  explicit Broadcast(Comm& comm, std::vector<Rank> members = {},
                     const std::vector<const SymmetricRegion*>& passed_on = {});
  /// Nothing is passed on here any more. Collective in that nothing is under way.
  ~Broadcast();
  Broadcast(const Broadcast&) = delete;
  Broadcast& operator=(const Broadcast&) = delete;

  /// To `offset` of `memory`, which outlives the Request, at each member that does not discard it. A member's loss is
  /// what it ends with; the others have the data nevertheless, but for those to whom the lost one was to pass them on.
  /// Then what was under way between others may still arrive; send it again to another place, without a tree from then
  /// on. Throws Error when the data or the signal does not fit.
  Request send(Channel& channel, const SymmetricRegion& memory, std::uint64_t offset, RemoteSpan from, Signal signal);

  /// From here on this rank gets neither data nor signals, or gets them again. What is sent at this very moment may go
  /// either way. Who discards has no part in passing on.
  void discard(bool on);

 private:
  class Impl;
  class Sending;
  std::shared_ptr<Impl> impl_;  ///< kept by what is in the background
};

}  // namespace farside
