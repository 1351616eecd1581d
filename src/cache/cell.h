// cell.h — one word that says where a group finds a block.
//
//   63..62 state   0 invalid, 1 loading, 2 loaded
//   61..40 nonce   one more with every change of the cell, so that a late COMPARE_SWAP meets another word
//   39..24 rank    of the node that loads it or has it
//   23..0  slot    in that rank's slots
//
// A cell changes by COMPARE_SWAP only. Guarantee: of all nodes that want to load a block for one group, one succeeds in
// turning `invalid` into `loading`. The nonce repeats after 4 million changes of one cell: a node would have to be
// stopped between its READ and its COMPARE_SWAP for as long, and find rank and slot repeated as well.
#pragma once

#include <cstdint>

#include "farside/team/team.h"

namespace farside::cache {

/// A block's place in the pool.
struct Place {
  team::Rank rank;
  std::uint32_t slot;

  friend bool operator==(const Place&, const Place&) = default;
};

struct Cell {
  enum class State : std::uint8_t { invalid = 0, loading = 1, loaded = 2 };

  State state = State::invalid;
  std::uint32_t nonce = 0;
  team::Rank rank = 0;
  std::uint32_t slot = 0;

  static constexpr std::uint32_t kNonceMask = (1U << 22U) - 1;

  [[nodiscard]] static constexpr Cell from_word(std::uint64_t word) {
    // 3 is no state: the word comes from memory of a peer, so it may hold anything.
    const auto state = word >> 62U;
    return {state > 2 ? State::invalid : static_cast<State>(state),
            static_cast<std::uint32_t>(word >> 40U) & kNonceMask, static_cast<team::Rank>(word >> 24U & 0xffffU),
            static_cast<std::uint32_t>(word & 0xffffffU)};
  }
  [[nodiscard]] constexpr std::uint64_t word() const {
    return static_cast<std::uint64_t>(state) << 62U | static_cast<std::uint64_t>(nonce & kNonceMask) << 40U |
           static_cast<std::uint64_t>(rank & 0xffffU) << 24U | (slot & 0xffffffU);
  }

  [[nodiscard]] constexpr Place place() const { return {rank, slot}; }
  [[nodiscard]] constexpr bool names(Place where) const { return state != State::invalid && place() == where; }

  // The cells that may follow this one.
  [[nodiscard]] constexpr Cell loading_at(Place by) const { return {State::loading, nonce + 1, by.rank, by.slot}; }
  [[nodiscard]] constexpr Cell loaded_at(Place by) const { return {State::loaded, nonce + 1, by.rank, by.slot}; }
  [[nodiscard]] constexpr Cell invalidated() const { return {State::invalid, nonce + 1, 0, 0}; }
};

}  // namespace farside::cache
