#include "farside/arrays/wants.h"

#include <algorithm>

namespace farside::arrays {

namespace {

/// A stretch of an axis, and how far it is from where it was asked for.
struct Stretch {
  std::int64_t first;
  std::int64_t last;
  std::int64_t moved;
};

std::vector<Stretch> stretches(std::int64_t first, std::int64_t last, std::int64_t extent, bool periodic) {
  if (!periodic) return {{std::max<std::int64_t>(first, 0), std::min(last, extent), 0}};
  std::vector<Stretch> found;
  while (first < last && extent > 0) {
    const std::int64_t inside = (first % extent + extent) % extent;
    const std::int64_t count = std::min(last - first, extent - inside);
    found.push_back({inside, inside + count, inside - first});
    first += count;
  }
  return found;
}

}  // namespace

std::vector<Want> inside(const Box& source, const Index& by, const Box& frame, const Index& extents,
                         const Periodic& periodic) {
  std::array<std::vector<Stretch>, kAxes> by_axis;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    by_axis[axis] = stretches(source.first[axis], source.last[axis], extents[axis], periodic[axis]);
  }
  std::vector<Want> wants;
  for (const Stretch& x : by_axis[0]) {
    for (const Stretch& y : by_axis[1]) {
      for (const Stretch& z : by_axis[2]) {
        const Box box = {{x.first, y.first, z.first}, {x.last, y.last, z.last}};
        const Index asked = difference(box.first, {x.moved, y.moved, z.moved});
        if (!box.empty()) wants.push_back({box, sum(asked, by), frame});
      }
    }
  }
  return wants;
}

Wants shifted(const Layout& result, std::size_t axis, std::int64_t shift, bool periodic) {
  Index by{};
  Periodic on{};
  on[axis] = periodic;
  const std::int64_t extent = result.extents()[axis];
  by[axis] = periodic && extent > 0 ? -(shift % extent) : -std::clamp(shift, -extent, extent);
  return [=](team::Rank rank) {
    const Box own = result.own(rank);
    return inside(own.moved(difference({}, by)), by, result.stored(rank), result.extents(), on);
  };
}

Wants reordered(const Layout& result, const Order& order) {
  return [=](team::Rank rank) -> std::vector<Want> {
    const Box own = result.own(rank);
    Box source;
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      source.first[order[axis]] = own.first[axis];
      source.last[order[axis]] = own.last[axis];
    }
    return {{source, own.first, result.stored(rank)}};
  };
}

std::vector<Want> ghosts(const Layout& layout, team::Rank rank, const Periodic& periodic) {
  std::vector<Want> wants;
  std::uint64_t begin = 0;
  if (layout.own(rank).empty()) return wants;
  for (const Box& side : around(layout.stored(rank), layout.own(rank))) {
    for (Want& want : inside(side, {}, {}, layout.extents(), periodic)) {
      want.frame = want.source.moved(difference(want.at, want.source.first));
      want.begin = begin;
      begin += want.source.size();
      wants.push_back(want);
    }
  }
  return wants;
}

std::uint64_t ghost_capacity(const Layout& layout, const Periodic& periodic) {
  std::uint64_t most = 0;
  for (team::Rank rank = 0; rank < layout.ranks(); ++rank) {
    std::uint64_t elements = 0;
    for (const Want& want : ghosts(layout, rank, periodic)) elements += want.source.size();
    most = std::max(most, elements);
  }
  return most;
}

std::vector<Box> around(const Box& outer, const Box& inner) {
  if (inner.empty()) return {outer};
  std::vector<Box> boxes;
  Box rest = outer;  // from which a slab is cut at both ends of each axis
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    Box before = rest;
    Box after = rest;
    before.last[axis] = inner.first[axis];
    after.first[axis] = inner.last[axis];
    rest.first[axis] = inner.first[axis];
    rest.last[axis] = inner.last[axis];
    for (const Box& slab : {before, after}) {
      if (!slab.empty()) boxes.push_back(slab);
    }
  }
  return boxes;
}

}  // namespace farside::arrays
