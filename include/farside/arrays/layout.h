// layout.h — which element of an array is where: boxes of indices, and how they are dealt out to the ranks.
//
// Everything here is arithmetic that gives the same on all ranks, so no rank asks another where something is. Arrays of
// one and two dimensions are arrays of three whose first axes have one element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "farside/team/team.h"

namespace farside::arrays {

inline constexpr std::size_t kAxes = 3;

/// A place in an array, counted from its first element; ghost cells before that are negative.
using Index = std::array<std::int64_t, kAxes>;

/// The indices from `first` to before `last` on each axis.
struct Box {
  Index first{};
  Index last{};

  [[nodiscard]] std::int64_t extent(std::size_t axis) const { return last[axis] - first[axis]; }
  [[nodiscard]] bool empty() const { return extent(0) <= 0 || extent(1) <= 0 || extent(2) <= 0; }
  /// How many elements.
  [[nodiscard]] std::uint64_t size() const {
    return empty() ? 0 : static_cast<std::uint64_t>(extent(0) * extent(1) * extent(2));
  }
  /// The position of `index` when the box is stored row by row.
  [[nodiscard]] std::int64_t position(const Index& index) const {
    return ((index[0] - first[0]) * extent(1) + index[1] - first[1]) * extent(2) + index[2] - first[2];
  }
  [[nodiscard]] Box grown(const Index& by) const;
  [[nodiscard]] Box moved(const Index& by) const;

  friend bool operator==(const Box&, const Box&) = default;
};

[[nodiscard]] Box common_part(const Box& a, const Box& b);
[[nodiscard]] Index sum(const Index& a, const Index& b);
[[nodiscard]] Index difference(const Index& a, const Index& b);

/// How many parts each axis has when `ranks` are spread over the first `dimensions` of them as evenly as can be, more
/// parts first.
[[nodiscard]] std::vector<std::uint32_t> even_parts(std::uint32_t ranks, std::size_t dimensions);

/// An array cut into blocks: each axis into so many parts, whose sizes differ by one at most; part (x, y, z) belongs to
/// rank (x * parts of y + y) * parts of z + z. Some may be empty.
class Layout {
 public:
  Layout() = default;
  /// Throws UsageError when the parts are not as many as the ranks, and for more than 2^47 elements.
  Layout(const Index& extents, const Index& parts, const Index& halo, std::uint32_t ranks);

  [[nodiscard]] const Index& extents() const noexcept { return extents_; }
  [[nodiscard]] const Index& parts() const noexcept { return parts_; }
  /// How many ghost cells there are before and after a block.
  [[nodiscard]] const Index& halo() const noexcept { return halo_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept {
    return static_cast<std::uint32_t>(parts_[0] * parts_[1] * parts_[2]);
  }

  [[nodiscard]] Box all() const { return {{}, extents_}; }
  /// The block of `rank`.
  [[nodiscard]] Box own(team::Rank rank) const;
  /// The same and its ghost cells: what is in its memory, row by row.
  [[nodiscard]] Box stored(team::Rank rank) const { return own(rank).grown(halo_); }
  /// Whose block `index` is in.
  [[nodiscard]] team::Rank owner(const Index& index) const;
  /// Elements that each rank has memory for.
  [[nodiscard]] std::uint64_t capacity() const;

  /// The same elements at the same ranks, whatever their ghost cells.
  [[nodiscard]] bool matches(const Layout& other) const { return extents_ == other.extents_ && parts_ == other.parts_; }
  friend bool operator==(const Layout&, const Layout&) = default;
  /// "1x100x20 in 1x2x1 parts".
  [[nodiscard]] std::string text() const;

 private:
  Index extents_{};
  Index parts_{1, 1, 1};
  Index halo_{};
};

}  // namespace farside::arrays
