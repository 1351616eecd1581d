// block.h — how a block of a file is named and how it lies in memory.
//
// The same bytes are read by three parties: the node that owns them, other nodes (READs), and the programs of the
// node's host (a read-only mapping). Needs nothing but libc, since the preload library includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "farside/base/mix.h"
#include "farside/base/rounding.h"
#include "farside/fabric/words.h"

namespace farside::cache {

/// One version of one file. Two hosts that mount the same file system derive the same identity; any change of the
/// file gives another. All fields but the first are those of stat(2).
struct FileIdentity {
  std::uint64_t file_system;  ///< names the file system, see file_system_tag() in node/files/file_system.h
  std::uint64_t inode;
  std::uint64_t bytes;
  std::int64_t modified_ns;
  std::int64_t changed_ns;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// A block: bytes [index * block_bytes, +block_bytes) of a file, cut at its end.
struct BlockKey {
  FileIdentity file;
  std::uint64_t index;

  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};
static_assert(sizeof(BlockKey) == 48 && std::has_unique_object_representations_v<BlockKey>);

/// A 63-bit name of a block, never 0. Different blocks may share one (about n^2 / 2^64 for n blocks): a caller that
/// must be sure compares the key.
using BlockId = std::uint64_t;

[[nodiscard]] constexpr std::uint64_t file_hash(const FileIdentity& file) {
  std::uint64_t hash = mix(file.file_system + kMixStep);
  for (const std::uint64_t field : {file.inode, file.bytes, static_cast<std::uint64_t>(file.modified_ns),
                                    static_cast<std::uint64_t>(file.changed_ns)}) {
    hash = mix(hash ^ (field + kMixStep));
  }
  return hash;
}

[[nodiscard]] constexpr BlockId block_id(std::uint64_t file_hash, std::uint64_t index) {
  const std::uint64_t id = mix(file_hash + index * kMixStep) >> 1U;
  return id != 0 ? id : 1;
}

[[nodiscard]] constexpr BlockId block_id(const BlockKey& key) { return block_id(file_hash(key.file), key.index); }

/// A slot of the local cache array: this header, then the block's bytes.
///
///     0 block_id   0 while the slot holds nothing; set last when it is filled, cleared first when it is recycled
///     8 token      0 while the bytes may change; unique among all tokens this rank ever gave, restarts included
///    16 (zero)     up to the next cache line: the two words above change while others copy what follows
///    64 key        which block this is, exactly; stable while the token is
///   112 bytes      how many bytes of the block there are; stable while the token is
///   120 (zero)
///   128 data
///
/// Guarantee: between two loads of the same token other than 0, nothing from `key` on has changed.
struct SlotHeader {
  ControlWord block_id;
  ControlWord token;
  Bulk<48> zero;
  Bulk<48> key;
  Bulk<8> bytes;
  Bulk<8> zero_too;
};
static_assert(sizeof(SlotHeader) == 128 && std::has_unique_object_representations_v<SlotHeader>);
static_assert(offsetof(SlotHeader, token) == 8 && offsetof(SlotHeader, key) == 64);
static_assert(offsetof(SlotHeader, bytes) == 112);

/// The part of a slot that its token covers, ahead of the data.
struct BlockLabel {
  BlockKey key;
  std::uint64_t bytes;
  std::uint64_t zero;
};
static_assert(sizeof(BlockLabel) == sizeof(SlotHeader) - offsetof(SlotHeader, key));

/// From slot to slot: whole pages, so that the bytes of all slots lie alike within a page. (A copy whose two sides are
/// at odds within a page is several times slower on common processors.) Small blocks get a finer grain, to save memory.
[[nodiscard]] constexpr std::uint64_t slot_stride(std::uint64_t block_bytes) {
  const std::uint64_t grain = block_bytes >= 65536 ? 4096 : block_bytes / 16;
  return round_up(sizeof(SlotHeader) + block_bytes, grain);
}

/// The host index, in which programs of this host find a block without a request to the node. Written by the node only.
///
///   buckets of 8 ControlWords; a block's bucket is its id modulo their number (a power of two, at most 2^24);
///   a word is 0 or the block id's upper 40 bits and, below them, slot + 1.
///
/// A hint: a word may be stale or missing. A reader compares the slot's key under its token.
struct IndexBucket {
  ControlWord words[8];  // NOLINT(modernize-avoid-c-arrays): a layout in shared memory
};
static_assert(sizeof(IndexBucket) == 64);

inline constexpr std::uint64_t kIndexSlotMask = (1U << 24U) - 1;
inline constexpr std::uint64_t kMaximumSlots = kIndexSlotMask;

[[nodiscard]] constexpr std::uint64_t index_word(BlockId id, std::uint64_t slot) {
  return (id & ~kIndexSlotMask) | (slot + 1);
}

}  // namespace farside::cache
