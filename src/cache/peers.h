// peers.h — the memory of all nodes, as the protocol goes to its words and headers: not for long, and not again and
// again.
//
// A node that does not answer need not be lost to the team: perhaps only the way from here to there is cut. So no
// operation waits for an answer for longer than time_limits::kPeer. A node that owes one is left alone for as long,
// twice as long after each further time in a row, a minute at most; then one operation tries it again. Until then it is
// to this node as if it were dead. Nothing else is known of it, and its own late effects are borne as those of the dead
// are.
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "farside/cache/time_limits.h"
#include "farside/team/team.h"

#include "base/backoff.h"
#include "base/mutex.h"

namespace farside::cache {

class Peers {
 public:
  Peers(team::Team& team, const team::SymmetricRegion& region) : team_(team), region_(region), silent_(team.size()) {}

  /// Whether there is such a node, and it may answer.
  [[nodiscard]] bool reachable(team::Rank rank) const;

  Outcome read(Channel& channel, LocalSpan into, team::Rank from, std::uint64_t offset, Deadline deadline);
  /// Consecutive words, each by a READ of its own: in a larger one each may be split.
  Outcome read_each(Channel& channel, std::span<std::uint64_t> into, team::Rank from, std::uint64_t offset,
                    Deadline deadline);
  Result<std::uint64_t> load(Channel& channel, team::Rank from, std::uint64_t offset, Deadline deadline);
  Result<std::uint64_t> swap(Channel& channel, team::Rank at, std::uint64_t offset, std::uint64_t value,
                             Deadline deadline);
  Result<std::uint64_t> compare_swap(Channel& channel, team::Rank at, std::uint64_t offset, std::uint64_t expected,
                                     std::uint64_t desired, Deadline deadline);

 private:
  struct Silence {
    std::optional<Backoff<Duration>> pauses;  ///< none while it answers
    Time until{};
  };

  template <class Operation>
  Result<std::uint64_t> ask(team::Rank rank, Deadline deadline, Operation&& operation);
  [[nodiscard]] bool may_try(team::Rank rank);
  void note_answer(team::Rank rank);
  void note_silence(team::Rank rank);

  team::Team& team_;
  const team::SymmetricRegion& region_;
  mutable Mutex mutex_;
  std::vector<Silence> silent_ GUARDED_BY(mutex_);  // by rank
};

}  // namespace farside::cache
