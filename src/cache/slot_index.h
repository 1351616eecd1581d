// slot_index.h — what this node knows of its own slots: which block is where, which slot is free, what is on its way.
//
// Every block is in at most one slot, and on its way in at most one thread. A slot is free, or taken (being filled or
// emptied by one thread), or listed (holds a block and may be chosen to go).
//
// Thread safety: every call, from any thread. No fabric operation happens inside.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "farside/cache/cache.h"

#include "base/mutex.h"
#include "cache/host_index.h"
#include "cache/replacement_lists.h"

namespace farside::cache {

class SlotIndex {
 public:
  SlotIndex(const CacheLayout& layout, double singlet_ratio, HostIndex index);

  void set_board(const UseBoard& board);

  // Acquiring.

  struct Here {
    std::uint32_t slot;
    std::uint64_t token;
  };
  struct OnItsWay {};  ///< in another thread: look again a little later
  struct Yours {};     ///< no other thread is at it: the caller is now, and must call arrived or given_up
  [[nodiscard]] std::variant<Here, OnItsWay, Yours> look(const BlockKey& key);

  void arrived(const BlockKey& key, Here place, Time now);
  void given_up(const BlockKey& key);

  // Room.

  [[nodiscard]] std::optional<std::uint32_t> take_free();
  void give_back(std::uint32_t slot);

  /// A block that may have to go, taken out of the lists; still readable until remove.
  struct Candidate {
    std::uint32_t slot;
    BlockKey key;
    bool was_singlet;  ///< it fell off the FIFO: dropped whatever it is
  };
  [[nodiscard]] std::optional<Candidate> take_candidate();
  void keep_singlet(std::uint32_t slot, Time now);
  /// The block is in this node no more. Its slot stays taken.
  void remove(const Candidate& candidate);
  /// The candidate's discard was broken off: its slot is listed again if it was not removed, else free.
  void restore(const Candidate& candidate, Time now);

  // Counting.

  void count_from_peer(std::uint64_t bytes);
  void count_from_file(std::uint64_t bytes);
  [[nodiscard]] CacheCounters counters() const;

 private:
  struct HashKey {
    std::size_t operator()(const BlockKey& key) const { return block_id(key); }
  };

  // Without programs there is no use to see.
  class NoBoard final : public UseBoard {
   public:
    [[nodiscard]] Time last_used(std::uint64_t) const override { return {}; }
  };

  mutable Mutex mutex_;
  NoBoard no_board_;
  const UseBoard* board_ GUARDED_BY(mutex_) = &no_board_;
  HostIndex index_ GUARDED_BY(mutex_);
  ReplacementLists lists_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_ GUARDED_BY(mutex_);
  std::vector<BlockKey> keys_ GUARDED_BY(mutex_);  // by slot, for those that hold a block
  std::unordered_map<BlockKey, Here, HashKey> places_ GUARDED_BY(mutex_);
  std::unordered_set<BlockKey, HashKey> on_their_way_ GUARDED_BY(mutex_);
  CacheCounters counters_ GUARDED_BY(mutex_){};
};

}  // namespace farside::cache
