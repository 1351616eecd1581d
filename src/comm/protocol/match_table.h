// match_table.h — where offers and claims of one key meet, whichever comes first (docs/protocols/comm.md,
// "Rendezvous").
//
// For each source rank and key there is an entry at the destination. The rank that comes first leaves a description of
// its place there; the second rank reads it and makes the transfer itself, so the first one's process takes no part.
// Keys are used over and over; each use is a round.
//
//   entry[source][key]        at the destination, a line
//     state      AtomicWord   withdrawals in this round (30 bits), round (32), phase (2): empty, offered, claimed, or
//                             met while the transfer is made
//     offered    Bulk         place: region, offset, bytes
//     claimed    Bulk         place
//   ended[end][peer][key]     at both    AtomicWord   how many rounds did not fit (32 bits) | have ended (32), each
//                                                     modulo 2^32: nothing is carried from one into the other
//
// Guarantee: a round ends at both ends or at none while both live, and then all bytes are in the destination, or, where
// the two places do not fit, none are. An entry's round is the number of rounds that have ended at either end.
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "farside/team/team.h"

#include "base/mutex.h"
#include "comm/protocol/rules.h"

namespace farside::comm {

/// A piece of the memory that both know. It travels as it is.
struct MatchPlace {
  std::uint64_t region = 0;  ///< its place in the list of regions
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(MatchPlace) == 24 && std::has_unique_object_representations_v<MatchPlace>);

class MatchTable {
 public:
  enum class End : std::uint8_t { source, destination };

  /// One end of one round.
  struct Ticket {
    End end;
    team::Rank peer;
    std::uint64_t key;
    std::uint64_t before;  ///< the word `ended` of this end when it began: it ends when that changes
  };
  enum class State : std::uint8_t { open, transferred, did_not_fit };

  /// Collective, with the same regions in the same order at all ranks. Keys are below `keys`.
  MatchTable(team::Team& team, const std::string& name, std::vector<const team::SymmetricRegion*> regions,
             std::uint64_t keys, const MatchRules& rules = {});

  /// None when this end's last round with that peer and key is still open.
  std::optional<Ticket> open(End end, team::Rank peer, std::uint64_t key);
  /// Leaves `mine` for the other end, or makes the transfer if that has come before.
  Outcome meet(Channel& channel, const Ticket& ticket, const MatchPlace& mine, Deadline deadline);
  [[nodiscard]] State state(const Ticket& ticket) const;
  Outcome wait(Channel& channel, const Ticket& ticket, Deadline deadline) const;
  /// Returns true: the round is not open any more, and the key is free for another; the ticket's flag will never turn.
  /// False: the other end has come, and the round goes on; or the deadline passed, and it may be withdrawn or not. The
  /// next call says which. Requires that meet returned done.
  [[nodiscard]] bool withdraw(Channel& channel, const Ticket& ticket, Deadline deadline);

 private:
  enum Phase : std::uint64_t { kEmpty, kOffered, kClaimed, kMet };

  [[nodiscard]] std::uint64_t entry_offset(team::Rank source, std::uint64_t key) const;
  [[nodiscard]] std::uint64_t ended_offset(End end, team::Rank peer, std::uint64_t key) const;
  [[nodiscard]] RemoteWord<AtomicWord> state_word(const Ticket& ticket) const;
  [[nodiscard]] RemoteSpan place_span(const Ticket& ticket, End end) const;
  [[nodiscard]] LocalWord<AtomicWord> ended_word(const Ticket& ticket) const;

  /// Whether `mine`, the state that this end has left, is gone.
  [[nodiscard]] bool take_away(Channel& channel, const Ticket& ticket, std::uint64_t mine, Deadline deadline);
  Outcome leave(Channel& channel, const Ticket& ticket, MatchPlace mine, Deadline deadline);
  Outcome transfer(Channel& channel, const Ticket& ticket, const MatchPlace& mine, std::uint64_t met,
                   Deadline deadline);
  Outcome copy(Channel& channel, const Ticket& ticket, const MatchPlace& mine, const MatchPlace& theirs,
               Deadline deadline);
  Outcome tell_both(Channel& channel, const Ticket& ticket, bool fits, Deadline deadline);
  [[nodiscard]] bool exists(const MatchPlace& place) const;

  team::Team& team_;
  const MatchRules rules_;
  const std::vector<const team::SymmetricRegion*> regions_;
  const std::uint64_t keys_;
  std::unique_ptr<team::SymmetricRegion> memory_;

  Mutex mutex_;
  /// By the offset of its word `ended`: that word's value.
  std::unordered_map<std::uint64_t, std::uint64_t> open_ GUARDED_BY(mutex_);
};

}  // namespace farside::comm
