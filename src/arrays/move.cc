#include "farside/arrays/move.h"

#include <string>

namespace farside::arrays {

std::size_t place_of_axis(std::size_t axis, std::size_t dimensions) {
  if (axis < dimensions) return axis + kAxes - dimensions;
  throw UsageError({"use an axis of an array", "axis " + std::to_string(axis),
                    "the array has " + std::to_string(dimensions), "count the axes from 0"});
}

void check_count(std::uint64_t given, std::uint64_t needed) {
  if (given == needed) return;
  throw UsageError({"make an array", std::to_string(given) + " elements", "it has " + std::to_string(needed),
                    "give as many as it has"});
}

void check_inside(const Layout& layout, const Index& index) {
  bool is_inside = true;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    is_inside = is_inside && index[axis] >= 0 && index[axis] < layout.extents()[axis];
  }
  if (is_inside) return;
  throw UsageError({"read an element",
                    std::to_string(index[0]) + ", " + std::to_string(index[1]) + ", " + std::to_string(index[2]),
                    "the array is " + layout.text(), "count from 0 on each axis"});
}

void check_extents(const char* what, std::int64_t extent, std::int64_t needed) {
  if (extent == needed) return;
  throw UsageError({what, "an extent of " + std::to_string(extent), "the other one is " + std::to_string(needed),
                    "give them the same"});
}

}  // namespace farside::arrays
