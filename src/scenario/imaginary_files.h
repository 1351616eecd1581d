// imaginary_files.h — the file system of the scenarios: small files of one block, each word of which is told by its
// key, so that bytes of another block, or a mixture, show.
//
// Stands alone: what reads the files and what checks the bytes must agree on it.
#pragma once

#include <cstring>

#include "farside/cache/cache.h"

namespace farside::scenario {

inline constexpr std::uint64_t kBlockBytes = 4096;
inline constexpr std::uint64_t kBlockWords = 16;  // that a block has: enough to mix

[[nodiscard]] inline cache::BlockKey key_of(std::uint64_t block, std::uint64_t words = kBlockWords) {
  return {{.file_system = 1, .inode = block + 1, .bytes = words * 8, .modified_ns = 5, .changed_ns = 6}, 0};
}
[[nodiscard]] inline std::uint64_t block_of(const cache::BlockKey& key) { return key.file.inode - 1; }

[[nodiscard]] inline std::uint64_t word_of(const cache::BlockKey& key, std::uint64_t position) {
  return mix(cache::block_id(key) + position);
}

}  // namespace farside::scenario
