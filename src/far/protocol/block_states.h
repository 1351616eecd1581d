// block_states.h — which blocks of a space are not what lies in their slab's memory: those that were discarded are
// zeros, and those whose every copy was lost are lost, although the slab has memory again, until they are written.
#pragma once

#include <cstdint>
#include <optional>

#include "base/lazy_array.h"
#include "base/mutex.h"

namespace farside::far {

enum class BlockState : std::uint8_t { stored, zeros, lost };

/// Thread safety: every call, from any thread. Offsets count from the beginning of the slab.
class BlockStates {
 public:
  /// The last slab of a space, and its last block, may be shorter than the others. Everything is stored.
  BlockStates(std::uint64_t space_bytes, std::uint64_t slab_bytes, std::uint64_t block_bytes);

  /// The blocks of `slab` that are stored are lost now.
  void lose(std::uint64_t slab);
  /// The blocks that lie whole in these bytes are zeros. Returns whether all of the slab is.
  bool clear(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes);
  /// The blocks that lie whole in these bytes are stored.
  void store(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes);
  /// All of the slab is stored.
  void reset(std::uint64_t slab);

  /// The part of these bytes that whole blocks make up; empty where there is none.
  struct Part {
    std::uint64_t begin;
    std::uint64_t end;
  };
  [[nodiscard]] Part whole_blocks(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes) const;
  /// The longest run of blocks of one state that begins at `offset`, and not more of it than `bytes`.
  struct Run {
    std::uint64_t bytes;
    BlockState state;
  };
  [[nodiscard]] Run run_at(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes) const;
  struct Block {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  /// A block of that state that these bytes have a part of, not all.
  [[nodiscard]] std::optional<Block> cut_by(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes,
                                            BlockState state) const;
  [[nodiscard]] bool all_zeros(std::uint64_t slab) const;

 private:
  struct Counts {
    std::uint32_t zeros;
    std::uint32_t lost;

    [[nodiscard]] bool none() const { return zeros + lost == 0; }
  };

  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t slab) const;
  [[nodiscard]] std::uint64_t blocks_of(std::uint64_t slab) const;
  BlockState* at(std::uint64_t slab) REQUIRES(mutex_) { return &blocks_[slab * blocks_of_slab_]; }
  const BlockState* at(std::uint64_t slab) const REQUIRES(mutex_) { return &blocks_[slab * blocks_of_slab_]; }
  /// The blocks that lie whole in the bytes.
  void set(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes, BlockState state) REQUIRES(mutex_);

  const std::uint64_t space_bytes_;
  const std::uint64_t slab_bytes_;
  const std::uint64_t block_bytes_;
  const std::uint64_t blocks_of_slab_;
  mutable Mutex mutex_;
  // Fault handlers come by: no memory is allocated.
  LazyArray<BlockState> blocks_ GUARDED_BY(mutex_);
  LazyArray<Counts> counts_ GUARDED_BY(mutex_);  ///< by slab
};

}  // namespace farside::far
