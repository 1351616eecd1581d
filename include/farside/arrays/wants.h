// wants.h — which boxes of an array each rank wants for an operation: shapes alone, for all kinds of elements.
#pragma once

#include <vector>

#include "farside/arrays/world.h"

namespace farside::arrays {

/// On which axes the element after the last one is the first.
using Periodic = std::array<bool, kAxes>;

/// For a rank that wants `source`, which may go beyond the edges, at `source` moved by `by` in `frame`: what of it
/// there is. On periodic axes that is all of it.
[[nodiscard]] std::vector<Want> inside(const Box& source, const Index& by, const Box& frame, const Index& extents,
                                       const Periodic& periodic);

/// Element i + shift of the array at i, into an array of `result`.
[[nodiscard]] Wants shifted(const Layout& result, std::size_t axis, std::int64_t shift, bool periodic);

/// The elements that a rank's block of `result` takes from the array, whose axes are in another order.
[[nodiscard]] Wants reordered(const Layout& result, const Order& order);

/// The elements for a rank's ghost cells. Each comes in one piece, one after the other; its frame is where it belongs.
[[nodiscard]] std::vector<Want> ghosts(const Layout& layout, team::Rank rank, const Periodic& periodic);
/// The elements of all of them at the rank that has most.
[[nodiscard]] std::uint64_t ghost_capacity(const Layout& layout, const Periodic& periodic);

/// Returns `outer` without `inner`, in boxes that do not overlap.
[[nodiscard]] std::vector<Box> around(const Box& outer, const Box& inner);

}  // namespace farside::arrays
