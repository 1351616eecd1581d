#include "node/block_size_advice.h"

#include <algorithm>
#include <bit>

namespace farside::node {

std::optional<std::uint64_t> better_block_bytes(const cache::node_socket::StatusReply& done,
                                                std::uint64_t block_bytes) {
  constexpr std::uint64_t kSmallest = 4096;
  constexpr std::uint64_t kPoorlyFilled = 4;  // a quarter
  const std::uint64_t blocks = done.blocks_from_files + done.blocks_from_peers;
  const std::uint64_t bytes = done.bytes_from_files + done.bytes_from_peers;
  // Some discards are not worth a warning; as many as there are slots are.
  if (blocks == 0 || done.discarded < done.slot_count || bytes / blocks > block_bytes / kPoorlyFilled) {
    return std::nullopt;
  }
  const std::uint64_t better = std::max(std::bit_ceil(bytes / blocks), kSmallest);
  return better < block_bytes ? std::optional(better) : std::nullopt;
}

}  // namespace farside::node
