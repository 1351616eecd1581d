// cache.h — one node's part in the cooperative file cache (Arai, Ishikawa, Hori: Anco, sections 2.1 to 2.5).
//
// Every node holds an array of slots and a share of the directory. A node that wants a block asks the directory, copies
// the block out of another node's memory, or, when no node of its group has it, becomes its loader: it reads the block
// from the file system. All by one-sided access: no node ever waits for another one's program.
//
// Guarantee: a block handed out is exactly the one asked for, whatever others do meanwhile. Everything else (what is
// where, which nodes have copies) is best effort and repairs itself. docs/protocols/cache.md has the layouts and the
// steps.
//
// Thread safety: every call, from any thread; each thread brings its own Channel.
#pragma once

#include <cstdint>
#include <memory>

#include "farside/cache/block.h"
#include "farside/cache/time_limits.h"
#include "farside/team/team.h"

namespace farside::cache {

/// The same on every node of a team; the constructor throws UsageError on what cannot be.
struct CacheOptions {
  std::uint64_t cache_bytes = 1U << 30U;  ///< memory for slots on each node
  std::uint64_t block_bytes = 1U << 20U;  ///< a power of two, 4 KiB to 64 MiB
  std::uint32_t groups = 1;               ///< the file system is asked at most once a group; at most 64
  double singlet_ratio = 0.5;             ///< share of the slots that only copies may keep, 0 to 1
  Duration loading_lease =
      cache::time_limits::kLoadingLease;  ///< how long a loader may be silent before another takes over
};

/// The source of blocks: a file system, through files that the caller holds open.
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  /// Reads block `key` into `into` (block_bytes long) and returns how many bytes it has; fewer than there should be, an
  /// error, or a file that is no longer the version that `key` names, is `kFailed`.
  virtual std::uint64_t load(const BlockKey& key, LocalSpan into) = 0;
  static constexpr std::uint64_t kFailed = ~0ULL;
};

/// When this host's programs last read from a slot, on the fabric's clock. They do not tell: the cache looks.
class UseBoard {
 public:
  virtual ~UseBoard() = default;
  [[nodiscard]] virtual Time last_used(std::uint64_t slot) const = 0;
};

struct CacheCounters {
  std::uint64_t blocks;
  std::uint64_t singlets;  ///< blocks in the singlet FIFO
  std::uint64_t blocks_from_peers;
  std::uint64_t bytes_from_peers;
  std::uint64_t blocks_from_files;
  std::uint64_t bytes_from_files;
  std::uint64_t discarded;
};

/// The places in the node's region, for the host's programs that map it.
struct CacheLayout {
  std::uint64_t block_bytes;
  std::uint64_t slot_count;
  std::uint64_t slots_offset;
  std::uint64_t index_offset;
  std::uint64_t index_buckets;
  std::uint64_t region_bytes;
};

struct CacheRules;  // what tests of the protocol break

/// The result of acquire.
struct [[nodiscard]] Acquired {
  enum class Answer {
    here,       ///< the block was in `slot` under `token` when acquire returned; it may be recycled any time later
    failed,     ///< the source failed: read around the cache
    late,       ///< the deadline passed
    elsewhere,  ///< another node loads it: come again
  };
  Answer answer;
  std::uint64_t slot;
  std::uint64_t token;
};

/// A node's view of another one that loads a block, from one acquire to the next: since when its cell is unchanged.
struct LoaderWatch {
  std::uint64_t word = 0;
  Time since{};
};

class Cache {
 public:
  /// Collective: all ranks of `team` make theirs with the same options. `board` must outlive the cache; it may be given
  /// later (set_board) since its size depends on the layout.
  Cache(team::Team& team, const CacheOptions& options);
  Cache(team::Team& team, const CacheOptions& options, const CacheRules& rules);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  void set_board(const UseBoard& board);
  [[nodiscard]] const CacheLayout& layout() const;
  [[nodiscard]] const Region& region() const;

  /// Brings a block into this node. Requests of several threads for the same block become one. Returns `elsewhere` only
  /// where a `watch` is given: the thread may then do something else before it asks again, with the same one.
  Acquired acquire(Channel& channel, const BlockKey& key, BlockSource& source, Deadline deadline,
                   LoaderWatch* watch = nullptr);

  /// Renews the leases of the loads that are under way. To be called a few times in each lease, by a thread that does
  /// not load, until the deadline at most: otherwise a node that loads for longer than a lease is replaced.
  void renew_leases(Channel& channel, Deadline deadline);

  [[nodiscard]] CacheCounters counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace farside::cache
