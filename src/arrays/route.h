// route.h — which elements go from where to where. Computed alike by all ranks, from shapes alone.
#pragma once

#include <functional>
#include <vector>

#include "farside/arrays/world.h"

namespace farside::arrays {

/// A box of elements at two places, each with a first element and the way from one element to the next on each axis.
struct Piece {
  Index extents{};
  std::int64_t from = 0;
  Index from_strides{};
  std::int64_t to = 0;
  Index to_strides{};

  [[nodiscard]] std::uint64_t size() const { return static_cast<std::uint64_t>(extents[0] * extents[1] * extents[2]); }
  /// The same with as few and as long rows as can be.
  [[nodiscard]] Piece joined() const;
  /// It lands in one stretch.
  [[nodiscard]] bool arrives_whole() const;
  /// Elements that lie together at both ends, in each row.
  [[nodiscard]] std::int64_t run() const { return from_strides[2] == 1 && to_strides[2] == 1 ? extents[2] : 1; }
  /// From the same place to a buffer that has nothing else, and from there on.
  [[nodiscard]] Piece packed() const;
  [[nodiscard]] Piece unpacked() const;
};

/// Returns the pieces that `from` has of the elements that `to` wants.
[[nodiscard]] std::vector<Piece> pieces(const Layout& layout, team::Rank from, const std::vector<Want>& wants_of_to,
                                        const Order& order);

void copy_elements(const Piece& piece, std::size_t element_bytes, const std::byte* from, std::byte* to,
                   const Threads& threads);

}  // namespace farside::arrays
