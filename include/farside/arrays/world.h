// world.h — what the arrays of a program stand on: memory at the same places on all ranks, the movement of boxes of
// elements between them, and the threads that compute.
//
// All ranks do the same with the same arrays in the same order; only the values differ (SPMD). A rank that does not
// gets an Error when the ranks next meet.
//
// No operation waits for a barrier (Matsuda et al., NICAM, section 4): what comes from other ranks is always written
// into memory that is not in use any more, and a rank waits for what it needs itself. With `strict`, each operation is
// between two barriers instead, and gives the same results.
//
// Failures throw Error: an array cannot go on without a rank. A rank's loss is named; afterwards the World serves for
// nothing but its destruction.
//
// Thread safety: one thread at a time, for the World and all that is built on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "farside/arrays/layout.h"
#include "farside/arrays/threads.h"
#include "farside/comm/collectives.h"

namespace farside::arrays {

/// The same at all ranks, but for the threads.
struct WorldOptions {
  unsigned threads = 0;  ///< of each rank; 0: the cores of the host, shared by its ranks
  bool strict = false;
  std::chrono::seconds time_out{60};          ///< of each wait
  std::uint64_t held_bytes = 64ULL << 20U;    ///< the most freed memory that waits for a barrier, at each rank
  std::uint64_t segment_bytes = 1ULL << 20U;  ///< by which memory grows, at least
};

/// At this rank, in bytes.
struct MemoryUse {
  std::uint64_t in_use = 0;      ///< by arrays and operations under way
  std::uint64_t held_back = 0;   ///< freed, but another rank may still be writing to it
  std::uint64_t high_water = 0;  ///< the most that both were together
  std::uint64_t reserved = 0;    ///< taken from the machine
  std::uint64_t waits = 0;       ///< how often a barrier had to be waited for
};

class World;

/// Memory of an array: as much, and at the same place, at each rank. It goes at all ranks alike.
class Block {
 public:
  Block() = default;
  ~Block() { release(); }
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }

  /// Its place at each rank.
  struct Place {
    std::uint32_t segment;
    std::uint64_t offset;
    std::uint64_t bytes;
  };

 private:
  friend class World;
  void release() noexcept;

  World* world_ = nullptr;
  std::byte* data_ = nullptr;
  Place place_{};
  comm::Request sent_{};  ///< transfers from here
};

/// A box of the source that a rank gets: where in its part of the destination, which holds `frame` row by row from
/// `begin` on, its first element lands.
struct Want {
  Box source;
  Index at;
  Box frame;
  std::uint64_t begin = 0;  ///< in elements
};
/// The same function at all ranks.
using Wants = std::function<std::vector<Want>(team::Rank)>;

/// The axes of the source that are those of the destination.
using Order = std::array<std::size_t, kAxes>;
inline constexpr Order kSameOrder = {0, 1, 2};

/// Bytes for another rank, and where they go in the memory that is meant for what comes.
struct Letter {
  team::Rank to;
  std::uint64_t at;
  std::vector<std::byte> bytes;
};

/// Elements under way. It must be ended, at all ranks alike.
class Transfer {
 public:
  /// Waits for what comes here.
  void end();

 private:
  friend class World;
  World* world_ = nullptr;
  std::uint64_t word_ = 0;  ///< that each sender sets
  std::vector<team::Rank> senders_;
};

class World {
 public:
  /// Collective, as is its end. `team` outlives it; it outlives all arrays. Throws Error when it cannot be set up.
  explicit World(team::Team& team, const WorldOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] team::Rank rank() const noexcept;
  [[nodiscard]] team::Rank size() const noexcept;
  [[nodiscard]] comm::Comm& comm() noexcept;
  [[nodiscard]] Channel& channel() noexcept;
  [[nodiscard]] const Threads& threads() const noexcept;
  [[nodiscard]] MemoryUse memory() const;
  [[nodiscard]] Deadline deadline() const;

  /// Waits until all ranks are here, and have done the same so far.
  void barrier();

  /// Combines the ranks' values in the order of the ranks; the same result at all.
  template <comm::Sendable T, class Operator>
  [[nodiscard]] T all_reduce(T value, Operator combine) {
    Checked<T> checked{value, note(sizeof(T)), true};
    const auto combine_checked = [combine](const Checked<T>& a, const Checked<T>& b) {
      return Checked<T>{combine(a.value, b.value), a.history, a.agree && b.agree && a.history == b.history};
    };
    expect(collectives().all_reduce(channel(), std::span(&checked, 1), deadline(), combine_checked), "reduce");
    if (!checked.agree) refuse_difference();
    return checked.value;
  }
  template <comm::Sendable T, class Operator>
  void all_reduce(std::span<T> values, Operator combine) {
    note(values.size_bytes());
    barrier();  // a rank that brings more than the others would go beyond their memory
    expect(collectives().all_reduce(channel(), values, deadline(), combine), "reduce");
  }

  /// Piece r of `from` goes to rank r; in `into`, by rank, is what they sent here.
  template <comm::Sendable T>
  void all_to_all(std::span<T> from, std::span<T> into) {
    note(from.size_bytes());
    expect(collectives().all_to_all(channel(), from, into, deadline()), "exchange numbers");
  }

  // For operations that are built on it.

  /// Memory that no rank uses. Its contents are those of its last use.
  [[nodiscard]] Block allocate(std::uint64_t bytes);
  /// Before this rank changes what is in `block`: what is sent from there has left.
  void about_to_change(Block& block);
  /// Sends from `source`, which holds what `layout` stores here, what all ranks want of it, into `destination`, which
  /// is new. What comes from this rank itself is there at once.
  [[nodiscard]] Transfer begin_transfer(const Layout& layout, Block& source, std::size_t element_bytes,
                                        const Wants& wants, Block& destination, const Order& order = kSameOrder);
  void transfer(const Layout& layout, Block& source, std::size_t element_bytes, const Wants& wants, Block& destination,
                const Order& order = kSameOrder) {
    begin_transfer(layout, source, element_bytes, wants, destination, order).end();
  }
  /// Sends `letters`, one to a rank at most, into `destination`, which is new; `senders` are the ranks that send one
  /// here.
  [[nodiscard]] Transfer begin_letters(std::vector<Letter> letters, std::vector<team::Rank> senders,
                                       Block& destination);
  /// For errors that no rank can go on after.
  void expect(const comm::Status& status, const char* tried);

 private:
  friend class Block;
  friend class Transfer;

  /// A value, and what its rank has done so far.
  template <class T>
  struct Checked {
    T value;
    std::uint64_t history;
    bool agree;
  };

  [[nodiscard]] comm::Collectives& collectives();
  /// Records what all ranks must do alike. Returns its hash, combined with that of all before.
  std::uint64_t note(std::uint64_t what);
  [[noreturn]] void refuse_difference();

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace farside::arrays
