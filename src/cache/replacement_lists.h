// replacement_lists.h — which block goes when room is needed (Anco, 2.2.2).
//
// general   blocks by the time this host's programs last used them; the oldest is the candidate
// singlets  a FIFO of blocks that were candidates, but of which no other copy was known; it holds a share of the slots,
//           and what falls off its end is dropped whatever it is, unless a program has used it since
//
// Programs do not announce a use: they stamp a board. A list is put right when its end is looked at, which gives the
// same candidates as moving a block at each use, but for one thing: a used singlet counts as one until it is reached.
//
// No thread safety, no fabric: plain lists.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <utility>

#include "farside/cache/cache.h"

namespace farside::cache {

class ReplacementLists {
 public:
  ReplacementLists(std::uint64_t slot_count, double singlet_ratio)
      : singlet_capacity_(static_cast<std::uint64_t>(static_cast<double>(slot_count) * singlet_ratio)) {}

  /// A block that was just acquired.
  void add(std::uint32_t slot, Time used) { general_.emplace(used.nanoseconds, slot); }

  /// Takes the least recently used block out of the general list.
  [[nodiscard]] std::optional<std::uint32_t> take_oldest(const UseBoard& board);

  /// Keeps a block as a singlet, at the front of the FIFO.
  void keep_singlet(std::uint32_t slot, Time now) { singlets_.push_front({slot, now}); }

  /// Takes what falls off the end of an overfull FIFO; a block that was used meanwhile goes back to the general list.
  [[nodiscard]] std::optional<std::uint32_t> take_overflow(const UseBoard& board);

  /// Takes the end of the FIFO, for when there is nothing else.
  [[nodiscard]] std::optional<std::uint32_t> take_singlet();

  [[nodiscard]] std::uint64_t singlets() const { return singlets_.size(); }

 private:
  struct Singlet {
    std::uint32_t slot;
    Time since;
  };

  std::uint64_t singlet_capacity_;
  std::set<std::pair<std::int64_t, std::uint32_t>> general_;  // by the last use we know of
  std::list<Singlet> singlets_;
};

}  // namespace farside::cache
