// arena.h — memory for arrays, at the same places on all ranks although no rank asks another.
//
// Every rank takes and gives back the same blocks in the same order, and every choice here depends on nothing else: not
// on what has arrived or how long something took. So a block's address is known at every rank.
//
// A block that was given back may still be written to by a rank that is behind, or sent from here. It is free again
// only when a barrier has ended that was begun after all ranks gave it back:
//
//   give_back -> the open batch -> (begin a barrier) -> up to kUnderWay closed batches -> (it has ended) -> free
//
// A batch is closed when it is worth a barrier. The oldest is waited for when more than kUnderWay are closed: by then
// its barrier has usually ended long ago. Only when more than `held_limit` is held back is it waited for at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "farside/arrays/world.h"

namespace farside::arrays {

class Arena {
 public:
  static constexpr std::size_t kUnderWay = 4;

  struct Limits {
    std::uint64_t held_bytes;     ///< the most that is held back
    std::uint64_t segment_bytes;  ///< by which memory grows, at least
    bool strict;                  ///< what was given back is waited for at once
  };
  /// The operations that the arena is built on. Each may throw.
  struct Backing {
    std::function<void(std::uint64_t bytes)> grow;         ///< one more segment, at all ranks
    std::function<std::uint64_t()> begin_barrier;          ///< its number
    std::function<bool(std::uint64_t barrier)> has_ended;  ///< asked for the report alone
    std::function<void(std::uint64_t barrier)> wait;
  };
  Arena(const Limits& limits, Backing backing) : limits_(limits), backing_(std::move(backing)) {}

  [[nodiscard]] Block::Place take(std::uint64_t bytes);
  /// Begins and waits for nothing: it may be called while an exception is under way.
  void give_back(const Block::Place& place);

  [[nodiscard]] const MemoryUse& use() const noexcept { return use_; }

 private:
  struct Batch {
    std::vector<Block::Place> places;
    std::uint64_t bytes = 0;
    std::uint64_t barrier = 0;
  };
  using At = std::pair<std::uint32_t, std::uint64_t>;  ///< segment, offset

  void close_batch();
  void free_oldest();
  void set_free(const Block::Place& place);
  [[nodiscard]] bool find(std::uint64_t bytes, Block::Place& found);

  const Limits limits_;
  const Backing backing_;
  std::map<At, std::uint64_t> free_;  ///< bytes; no two touch
  Batch open_;
  std::deque<Batch> closed_;  ///< the oldest first
  std::uint32_t segments_ = 0;
  MemoryUse use_;
};

}  // namespace farside::arrays
