// host_memory.h — the node's slots, index and board, mapped into this process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "farside/cache/node_socket.h"

namespace farside::cache_preload {

/// A part of one block.
struct Piece {
  const cache::FileIdentity& file;
  std::uint64_t index;  ///< of the block in the file
  cache::BlockId id;    ///< block_id() of the two
  std::uint64_t from;   ///< where in the block it starts
  std::size_t bytes;
  std::uint64_t now_ns;  ///< coarse_now_ns(), which is told to the node
};

/// Mapped for the life of the process and of those forked from it. Any thread may call anything.
class HostMemory {
 public:
  /// Maps what the node described. Null when the description or the descriptors make no sense.
  static const HostMemory* map(const cache::node_socket::MapReply& reply, int slots, int board);

  /// Releases the memory of a node that is gone. The addresses stay mapped: a thread that is copying reads zeros, and a
  /// token that is 0.
  void blank() const;

  [[nodiscard]] unsigned block_bits() const { return block_bits_; }

  /// Copies `piece` if the index knows its block, and counts a hit.
  [[nodiscard]] bool copy(const Piece& piece, void* into) const;

  /// Adds to a counter that the node shows.
  void count(std::uint64_t cache::node_socket::HitStripe::*counter, std::uint64_t addend) const;

  /// Copies `piece` if its block is in `slot`.
  [[nodiscard]] bool copy_from_slot(std::uint64_t slot, const Piece& piece, void* into) const;

 private:
  HostMemory() = default;
  [[nodiscard]] cache::node_socket::HitStripe& own_stripe() const;

  const std::byte* slots_base_;  ///< of the mapping of the slots ...
  std::uint64_t slots_bytes_;
  std::byte* board_base_;  ///< ... and of the board
  std::uint64_t board_bytes_;
  unsigned block_bits_;  ///< a block has 2 to this many bytes
  std::uint64_t slot_stride_;
  std::uint64_t slot_count_;
  std::uint64_t bucket_mask_;
  const std::byte* slots_;
  const cache::IndexBucket* index_;
  cache::node_socket::HitStripe* stripes_;
  std::uint64_t* stamps_;
};

}  // namespace farside::cache_preload
