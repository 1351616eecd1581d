// broadcast.h — from one rank's memory to the same place at all members that want it (NICAM, 3.2).
//
// Whoever sends need not be the one who has the data, nor a member; nobody else takes part. The sender reads the data
// once and writes it to each in turn.
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
  /// At each receiver, once all the data is visible there: `value` in the ControlWord at `offset`.
  struct Signal {
    std::uint64_t offset;
    std::uint64_t value;
  };

  /// Collective over the team, with the same `members` at all ranks; none are all ranks. `comm` outlives this.
  explicit Broadcast(Comm& comm, std::vector<Rank> members = {});
  Broadcast(const Broadcast&) = delete;
  Broadcast& operator=(const Broadcast&) = delete;

  /// To `offset` of `memory`, which outlives the Request, at each member that does not discard it. A member's loss is
  /// what it ends with; the others have the data nevertheless. Throws Error when the data or the signal does not fit.
  Request send(Channel& channel, const SymmetricRegion& memory, std::uint64_t offset, RemoteSpan from, Signal signal);

  /// From here on this rank gets neither data nor signals, or gets them again. What is sent at this very moment may go
  /// either way.
  void discard(bool on);

 private:
  Comm& comm_;
  std::vector<Rank> members_;
  std::shared_ptr<SymmetricRegion> discards_;  ///< a ControlWord at each rank; kept by what is in the background
};

}  // namespace farside
