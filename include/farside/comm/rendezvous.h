// rendezvous.h — one rank offers a piece of its memory under a key, another claims it; the second of the two makes the
// transfer (NICAM, section 3.2). Neither knows the other's address.
//
// Offers and claims of one pair of ranks and one key meet in order, the first with the first. A key may be used again
// when its last use has ended at this end. The first one's process takes no part in the transfer.
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "farside/comm/comm.h"

namespace farside::comm {

class Rendezvous {
 public:
  /// A piece of one's own memory.
  struct Place {
    std::size_t region;  ///< its number in the list that the constructor was given
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  /// One end of one use of a key. Copies mean the same.
  struct Ticket {
    bool offers;
    team::Rank peer;
    std::uint64_t key;
    std::uint64_t before;
    Request request;
  };
  struct [[nodiscard]] Copied {
    Status status;
    bool sizes_differ;  ///< then nothing was copied, and both ends are told
  };

  /// Collective, with the same regions in the same order at all ranks. Each pair of ranks has `keys` keys, from 0,
  /// which take 80 bytes of each rank. `comm` and the regions outlive this. Throws UsageError without keys.
  Rendezvous(Comm& comm, const std::vector<const team::SymmetricRegion*>& regions, std::uint64_t keys = 256);

  /// Neither waits for the other end. The place must stay as it is, a source unchanged, until the use of the key has
  /// ended or was withdrawn. Throw UsageError for a rank, a key or a place that there is not, and when this end has
  /// used the key and that has not ended: a second offer before the first was claimed.
  Ticket offer(Channel& channel, std::uint64_t key, team::Rank destination, const Place& source);
  Ticket claim(Channel& channel, std::uint64_t key, team::Rank source, const Place& destination);

  /// Until the key is used again.
  [[nodiscard]] bool ended(const Ticket& ticket) const;
  /// The same. timed_out when the other end has not come in time, and then it may still come.
  Copied wait(Channel& channel, const Ticket& ticket, Deadline deadline) const;
  /// Returns true: it never meets, and the key is free. False: the other end has come, or is lost: wait for it. Or the
  /// deadline passed first, and the use may be withdrawn or not: the next call says which.
  [[nodiscard]] bool withdraw(Channel& channel, const Ticket& ticket, Deadline deadline);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace farside::comm
