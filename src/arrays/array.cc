#include "farside/arrays/array.h"

#include <algorithm>
#include <string>

namespace farside::arrays {

void refuse_different(const Layout& a, const Layout& b) {
  throw UsageError({"combine arrays element by element", a.text() + " and " + b.text(), "their shapes differ",
                    "make them of the same extents, in the same parts"});
}

Layout make_layout(std::uint32_t ranks, std::span<const std::int64_t> extents, std::span<const std::int64_t> parts,
                   std::span<const std::int64_t> halo) {
  const std::size_t dimensions = extents.size();
  std::int64_t given = 1;  // at most as many as ranks; Layout refuses more
  for (const std::int64_t count : parts) {
    given = std::min<std::int64_t>(given * std::clamp<std::int64_t>(count, 1, ranks), ranks);
  }
  const auto open_axes = static_cast<std::size_t>(std::ranges::count(parts, 0));
  const std::vector<std::uint32_t> even =
      even_parts(std::max(1U, ranks / static_cast<std::uint32_t>(given)), std::max<std::size_t>(open_axes, 1));
  Index all_extents{1, 1, 1};
  Index all_parts{1, 1, 1};
  Index all_halo{};
  auto next_even = even.begin();
  for (std::size_t axis = 0; axis < dimensions; ++axis) {
    if (extents[axis] < 0 || halo[axis] < 0) {
      throw UsageError(
          {"make an array", "axis " + std::to_string(axis), "its extent or its halo is negative", "give none below 0"});
    }
    const std::size_t place = axis + kAxes - dimensions;
    all_extents[place] = extents[axis];
    all_parts[place] = parts[axis] != 0 ? parts[axis] : *next_even++;
    all_halo[place] = halo[axis];
  }
  return Layout(all_extents, all_parts, all_halo, ranks);
}

}  // namespace farside::arrays
