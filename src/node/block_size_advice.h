// block_size_advice.h — whether the pool's blocks fit the files that its programs read.
//
// A slot holds one block, whatever part of it the file fills: of small files a pool with large blocks holds few.
//
// Stands alone: it judges numbers of any node, for `farside status`.
#pragma once

#include <cstdint>
#include <optional>

#include "farside/cache/node_socket.h"

namespace farside::node {

/// The block size with which a pool that has done `done` would hold more; nothing while there is room for all, or the
/// blocks are filled well enough.
[[nodiscard]] std::optional<std::uint64_t> better_block_bytes(const cache::node_socket::StatusReply& done,
                                                              std::uint64_t block_bytes);

}  // namespace farside::node
