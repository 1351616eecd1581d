// arrivals.h — how many copies have arrived in which epoch (docs/protocols/comm.md, "Arrivals").
//
// Each rank has kOpen words; epoch e is counted in word e mod kOpen, which names the round that it is in, e / kOpen:
//
//   word[e mod kOpen]   AtomicWord   round (32 bits), arrivals in it (32)
//
// So memory as it is allocated counts epochs 0 to kOpen - 1.
//
// Guarantee: senders add to a word only when it names their round, and it names the next one only after all arrivals of
// this one. So an arrival that is awaited is counted in its own epoch.
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "farside/team/team.h"

#include "base/mutex.h"
#include "comm/protocol/rules.h"

namespace farside::comm {

class Arrivals {
 public:
  static constexpr std::uint64_t kOpen = 4;

  /// Collective over the team.
  Arrivals(team::Team& team, const std::string& name, const ArrivalRules& rules = {});

  /// The word that counts arrivals of `epoch` at `rank`.
  [[nodiscard]] RemoteWord<AtomicWord> word(team::Rank rank, std::uint64_t epoch) const;
  /// Waits until `epoch` is counted at `rank`.
  Outcome await_open(Channel& channel, team::Rank rank, std::uint64_t epoch, Deadline deadline);
  /// Waits for `count` arrivals here, and has the word count epoch + kOpen. Unless it returns done, the caller may wait
  /// for the epoch again.
  Outcome wait(Channel& channel, std::uint64_t epoch, std::uint32_t count, std::span<const team::Rank> senders,
               Deadline deadline);

 private:
  [[nodiscard]] std::uint64_t place(std::uint64_t epoch) const;
  [[nodiscard]] std::uint32_t round(std::uint64_t epoch) const;
  [[nodiscard]] Outcome end(Channel& channel, std::uint64_t epoch, std::uint32_t count);
  /// Returns whether that changes anything.
  bool set_ending(std::uint64_t epoch, bool is_ending);
  [[nodiscard]] std::uint32_t& seen_round(team::Rank rank, std::uint64_t epoch) REQUIRES(mutex_);

  team::Team& team_;
  const ArrivalRules rules_;
  std::unique_ptr<team::SymmetricRegion> words_;

  Mutex mutex_;
  std::vector<std::uint32_t> seen_ GUARDED_BY(mutex_);  ///< the last round seen in each rank's words
  std::set<std::uint64_t> ending_ GUARDED_BY(mutex_);   ///< own epochs whose end was posted and not answered
};

}  // namespace farside::comm
