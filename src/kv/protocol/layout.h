// layout.h — what lies where in a server's memory (docs/protocols/kv.md has the picture), and what a READ of it proves.
//
// Only the server's own processor stores into it. All other processes copy once and then check seals and checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "farside/fabric/words.h"
#include "farside/kv/types.h"

#include "kv/protocol/key_id.h"
#include "kv/protocol/timestamp.h"

namespace farside::kv {

/// The state of a version as its slot in the cell tells.
enum class VersionState : std::uint8_t { empty, prepared, committed };

/// The place of a record: fits a word.  state (2)  bytes / 16 (24)  offset / 16 (38)
struct RecordPlace {
  static constexpr std::uint64_t kGrain = 16;
  static constexpr unsigned kOffsetBits = 38;
  static constexpr unsigned kBytesBits = 24;

  VersionState state = VersionState::empty;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;

  [[nodiscard]] static constexpr RecordPlace from_word(std::uint64_t word) {
    const auto bits = [word](unsigned at, unsigned count) { return word >> at & ((std::uint64_t{1} << count) - 1); };
    return {static_cast<VersionState>(bits(62, 2)), bits(kOffsetBits, kBytesBits) * kGrain,
            bits(0, kOffsetBits) * kGrain};
  }
  [[nodiscard]] constexpr std::uint64_t word() const {
    return static_cast<std::uint64_t>(state) << 62U | bytes / kGrain << kOffsetBits | offset / kGrain;
  }
};
static_assert(2 + RecordPlace::kBytesBits + RecordPlace::kOffsetBits == 64);

/// One version in a cell.
struct CellSlot {
  Timestamp timestamp;
  std::uint64_t generation;  ///< of the record
  std::uint64_t place;       ///< a RecordPlace
};
static_assert(sizeof(CellSlot) == 32 && std::has_unique_object_representations_v<CellSlot>);

/// A key's cell, ahead of the copy of its newest committed record.
struct CellHead {
  static constexpr std::size_t kSlots = 4;

  KeyId key;
  std::uint64_t generation;
  std::uint64_t seal;      ///< seal_of all the rest: what is READ is one state of the cell, not a mix of several
  CellSlot slots[kSlots];  // NOLINT(modernize-avoid-c-arrays): a layout in shared memory

  [[nodiscard]] std::uint64_t seal_of() const;
  /// A slot's part of it, which is a sum.
  [[nodiscard]] static std::uint64_t seal_of(std::size_t number, const CellSlot& slot);
};
static_assert(sizeof(CellHead) == 160 && std::has_unique_object_representations_v<CellHead>);
static_assert(offsetof(CellHead, slots) == 32);

/// The place of a key's cell: fits a word.  tag (20)  bytes / 64 (6)  offset / 64 (38)
struct IndexWord {
  static constexpr std::uint64_t kNeverUsed = 0;
  static constexpr std::uint64_t kUsedOnce = std::uint64_t{1} << 63U;  ///< its offset is 0
  static constexpr std::uint64_t kGrain = 64;
  static constexpr unsigned kOffsetBits = 38;
  static constexpr unsigned kBytesBits = 6;
  static constexpr unsigned kTagBits = 20;
  static constexpr std::size_t kWordsInBucket = 8;

  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  ///< never 0: the header is there

  [[nodiscard]] static constexpr std::uint64_t tag_of(const KeyId& key) { return key.low >> (64 - kTagBits); }
  [[nodiscard]] static constexpr IndexWord from_word(std::uint64_t word) {
    const auto bits = [word](unsigned at, unsigned count) { return word >> at & ((std::uint64_t{1} << count) - 1); };
    return {bits(kOffsetBits + kBytesBits, kTagBits), bits(kOffsetBits, kBytesBits) * kGrain,
            bits(0, kOffsetBits) * kGrain};
  }
  [[nodiscard]] constexpr std::uint64_t word() const {
    return tag << (kOffsetBits + kBytesBits) | bytes / kGrain << kOffsetBits | offset / kGrain;
  }
};
static_assert(IndexWord::kTagBits + IndexWord::kBytesBits + IndexWord::kOffsetBits == 64);

/// A version, ahead of its siblings, its key and its value. Immutable but for `mark`.
struct RecordHead {
  static constexpr std::uint32_t kErased = 1;  ///< of flags
  // Bits of mark:
  static constexpr std::uint64_t kNotNewest = 1;   ///< not the newest committed, or something newer is prepared
  static constexpr std::uint64_t kEverywhere = 2;  ///< its siblings are committed, too
  static constexpr std::uint64_t kSettled = 4;     ///< and all that its session wrote before
  static constexpr unsigned kMarkBits = 3;         ///< what is above them is the generation's

  /// The state of the version while it lives, also in a cell's copy. Not under the checksum; it names its record
  /// itself, so that it is not taken for the mark of the record that was in the place before.
  std::uint64_t mark;
  std::uint64_t generation;  ///< of this use of the place
  std::uint64_t checksum;    ///< XXH3 of all that follows, seeded with the generation
  Timestamp timestamp;
  KeyId key;
  std::uint64_t expires_ns;  ///< wall time; 0: never
  std::uint32_t value_bytes;
  std::uint32_t key_bytes;
  SiblingsKind siblings_kind;
  std::uint16_t flags;
  std::uint32_t siblings_bytes;
};
static_assert(sizeof(RecordHead) == 80 && std::has_unique_object_representations_v<RecordHead>);
static_assert(offsetof(RecordHead, timestamp) == 24);

/// As it stands in a record, of any of its bits.
[[nodiscard]] constexpr std::uint64_t mark_word(std::uint64_t generation, std::uint64_t bits) {
  return generation << RecordHead::kMarkBits | bits;
}
[[nodiscard]] constexpr std::uint64_t mark_bits(std::uint64_t word) {
  return word & ((std::uint64_t{1} << RecordHead::kMarkBits) - 1);
}

/// The beginning of a server's memory.
struct MemoryHead {
  static constexpr std::uint64_t kMagic = 0x31766b6564697366;

  std::uint64_t magic;
  std::uint64_t bytes;          ///< of the whole
  std::uint64_t index_offset;   ///< of the first bucket
  std::uint64_t index_buckets;  ///< a power of two
  Timestamp forgotten;          ///< no key without a cell had a version above this
  std::uint64_t forgotten_seal;
  std::uint64_t epoch;  ///< of this server's right to serve

  [[nodiscard]] std::uint64_t seal_of_forgotten() const;
};
static_assert(sizeof(MemoryHead) == 64 && std::has_unique_object_representations_v<MemoryHead>);

inline constexpr std::uint64_t kMaxValueBytes = 16U << 20U;
/// The largest record that has a copy in its cell, and so decides how large a new key's cell is.
inline constexpr std::uint64_t kMaxCopyBytes = 512;

}  // namespace farside::kv
