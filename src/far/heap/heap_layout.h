// heap_layout.h — which parts of an arena are in use. What it knows lies outside of the arena: taking and giving back
// touches no page of it.
//
// The arena is cut into granules of 64 KiB. Large pieces are runs of granules; small ones share a run with others of
// their size. Lowest addresses first, so that what is used stays together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace farside::far {

/// Not safe for several threads: its owner has a lock.
class HeapLayout {
 public:
  static constexpr std::size_t kGranuleBytes = std::size_t{64} << 10U;

  explicit HeapLayout(std::size_t bytes);

  /// Returns where a piece of at least `bytes` begins; nothing when there is no room. `alignment` is a power of two.
  [[nodiscard]] std::optional<std::size_t> take(std::size_t bytes, std::size_t alignment);

  struct Piece {
    std::size_t begin;
    std::size_t bytes;
  };
  /// The piece that begins there, as it was asked for, rounded up.
  [[nodiscard]] std::optional<Piece> find(std::size_t begin) const;
  /// Gives it back; says what holds nothing any more, if that is any granule. Nothing when there is no such piece.
  /// Those granules are taken again from `reuse` on, and not before.
  struct Released {
    std::size_t begin = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] std::optional<Released> give(std::size_t begin);
  void reuse(const Released& released);  ///< of what is not empty
  [[nodiscard]] std::size_t used_bytes() const { return used_granules_ * kGranuleBytes; }

 private:
  struct Run {
    std::size_t granules;
    std::size_t piece_bytes;    ///< 0: it is one piece
    std::vector<bool> is_used;  ///< of its pieces
    std::size_t used = 0;
  };
  using Runs = std::map<std::size_t, Run>;

  [[nodiscard]] std::optional<std::size_t> take_run(std::size_t granules, std::size_t alignment);
  void give_run(std::size_t first, std::size_t granules);
  [[nodiscard]] std::optional<std::size_t> take_small(std::size_t piece_bytes);
  [[nodiscard]] Runs::const_iterator run_of(std::size_t begin) const;

  Runs runs_;                                            ///< by first granule
  std::map<std::size_t, std::size_t> free_;              ///< first granule, count; no two are neighbours
  std::map<std::size_t, std::set<std::size_t>> partly_;  ///< by size of piece: runs with room, by first granule
  std::size_t used_granules_ = 0;
};

}  // namespace farside::far
