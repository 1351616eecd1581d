// layout.h — what a node that lends memory shows its clients, word by word (docs/protocols/far.md).
//
// Two regions. The table:
//
//   0        8            16       24      32       40        64
//   | magic  | slab bytes | slabs  | short | bell   | unused  | word of slab 0 | word of slab 1 | ...
//
// and the memory: slab 0, slab 1, ..., of `slab bytes` each. A slab's word:
//
//   63    62 61     32 31        0
//   | state | 0       | holder   |
//
//         node         client            client               node
//   bare ------> free -------> taken(h) -------> returned(h) ------> bare
//                                 |                                   ^
//                                 +------- the node, when h is gone --+
//
// A slab that is free, or bare, has nothing but zeros. Of a slab that is taken, `holder` alone writes the word and the
// memory, until its access was taken away. Each change is a COMPARE_SWAP of the whole word.
//
// A word needs no generation: a holder posts one COMPARE_SWAP to return what it took, and till that has landed the word
// stays as it is (it posts another one when the first can land no more, and did not: slab_returns.h); and a slab that
// was free, taken and freed again is as free as before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "farside/fabric/words.h"

namespace farside::far {

/// The number of a client, unique among all clients that a node ever had. 0 is no client.
using Holder = std::uint32_t;
using SlabNumber = std::uint32_t;

inline constexpr std::uint64_t kTableMagic = 0x316c626174726166;  // "fartabl1"

struct TableHead {
  ControlWord magic;       // written once, as are the next two
  ControlWord slab_bytes;  // a power of 2
  ControlWord slabs;
  ControlWord is_short;  // 1: the machine has no memory to put behind what is bare
  AtomicWord bell;       // advanced by a client that took or returned a slab: the node looks at the table
  Bulk<24> unused;
};
static_assert(sizeof(TableHead) == 64 && std::has_unique_object_representations_v<TableHead>);
static_assert(offsetof(TableHead, is_short) == 24 && offsetof(TableHead, bell) == 32);

[[nodiscard]] constexpr std::uint64_t table_bytes(std::uint64_t slabs) { return sizeof(TableHead) + 8 * slabs; }
[[nodiscard]] constexpr std::uint64_t word_offset(std::uint64_t slab) { return sizeof(TableHead) + 8 * slab; }

enum class SlabState : std::uint8_t { bare, free, taken, returned };

struct SlabWord {
  SlabState state = SlabState::bare;
  Holder holder = 0;

  [[nodiscard]] constexpr std::uint64_t bits() const { return static_cast<std::uint64_t>(state) << 62U | holder; }
  [[nodiscard]] static constexpr SlabWord of(std::uint64_t bits) {
    return {.state = static_cast<SlabState>(bits >> 62U), .holder = static_cast<Holder>(bits)};
  }
};

}  // namespace farside::far
