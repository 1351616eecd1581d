#include "farside/arrays/reduce.h"

namespace farside::arrays {

Layout layout_along(const Layout& layout, std::size_t place, std::size_t dimensions) {
  Index parts = layout.parts();
  if (parts[place] != 1) {
    const std::vector<std::uint32_t> even = even_parts(layout.ranks(), dimensions - 1);
    auto next = even.begin();
    for (std::size_t axis = kAxes - dimensions; axis < kAxes; ++axis) parts[axis] = axis == place ? 1 : *next++;
  }
  return Layout(layout.extents(), parts, {}, layout.ranks());
}

Layout without_axis(const Layout& layout, std::size_t place) {
  Index extents = layout.extents();
  Index parts = layout.parts();
  for (std::size_t axis = place; axis > 0; --axis) {
    extents[axis] = extents[axis - 1];
    parts[axis] = parts[axis - 1];
  }
  extents[0] = parts[0] = 1;
  return Layout(extents, parts, {}, layout.ranks());
}

}  // namespace farside::arrays
