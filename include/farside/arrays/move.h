// move.h — operations that move elements between ranks: shifts, permuted axes, other distributions, whole copies.
//
// Each gives a new array, without ghost cells, and waits only for what comes to this rank. Collective.
#pragma once

#include <span>
#include <vector>

#include "farside/arrays/array.h"
#include "farside/arrays/wants.h"

namespace farside::arrays {

/// Throw UsageError.
void check_count(std::uint64_t given, std::uint64_t needed);
void check_inside(const Layout& layout, const Index& index);
void check_extents(const char* what, std::int64_t extent, std::int64_t needed);

/// The same as `a`, without ghost cells.
template <class T, std::size_t Dimensions>
[[nodiscard]] Layout layout_of_result(const Array<T, Dimensions>& a) {
  return Layout(a.layout().extents(), a.layout().parts(), {}, a.world().size());
}

/// Element i of the result is element i + shift of `a` on that axis; what goes beyond one end comes in at the other.
template <class T, std::size_t Dimensions>
[[nodiscard]] Array<T, Dimensions> cshift(const Array<T, Dimensions>& a, std::size_t axis, std::int64_t shift) {
  Array<T, Dimensions> result(a.world(), layout_of_result(a));
  const Wants wants = shifted(result.layout(), place_of_axis(axis, Dimensions), shift, true);
  a.world().transfer(a.layout(), a.block(), sizeof(T), wants, result.block());
  return result;
}

/// The same, but what comes in is `boundary`.
template <class T, std::size_t Dimensions>
[[nodiscard]] Array<T, Dimensions> eoshift(const Array<T, Dimensions>& a, std::size_t axis, std::int64_t shift,
                                           T boundary = {}) {
  const std::size_t place = place_of_axis(axis, Dimensions);
  Array<T, Dimensions> result(a.world(), layout_of_result(a));
  Box beyond = result.layout().all();
  const std::int64_t extent = beyond.last[place];
  shift = std::clamp(shift, -extent, extent);
  if (shift >= 0) {
    beyond.first[place] = std::max<std::int64_t>(0, extent - shift);
  } else {
    beyond.last[place] = std::min(-shift, extent);
  }
  result.assign(boundary, beyond);
  a.world().transfer(a.layout(), a.block(), sizeof(T), shifted(result.layout(), place, shift, false), result.block());
  return result;
}

/// Axis d of the result is axis `order[d]` of `a`, and has as many parts.
template <class T, std::size_t Dimensions>
[[nodiscard]] Array<T, Dimensions> permute(const Array<T, Dimensions>& a,
                                           const std::array<std::size_t, Dimensions>& order) {
  Order places = kSameOrder;
  Index extents = a.layout().extents();
  Index parts = a.layout().parts();
  for (std::size_t axis = 0; axis < Dimensions; ++axis) {
    const std::size_t place = place_of_axis(axis, Dimensions);
    places[place] = place_of_axis(order[axis], Dimensions);
    extents[place] = a.layout().extents()[places[place]];
    parts[place] = a.layout().parts()[places[place]];
  }
  Array<T, Dimensions> result(a.world(), Layout(extents, parts, {}, a.world().size()));
  a.world().transfer(a.layout(), a.block(), sizeof(T), reordered(result.layout(), places), result.block(), places);
  return result;
}

template <class T>
[[nodiscard]] Array<T, 2> transpose(const Array<T, 2>& a) {
  return permute(a, {1, 0});
}

/// The same elements, dealt out in another way.
template <class T, std::size_t Dimensions>
[[nodiscard]] Array<T, Dimensions> redistribute(const Array<T, Dimensions>& a,
                                                const Distribution<Dimensions>& distribution) {
  Array<T, Dimensions> result(a.world(),
                              make_layout(a.world().size(), a.extents(), distribution.parts, distribution.halo));
  a.world().transfer(a.layout(), a.block(), sizeof(T), reordered(result.layout(), kSameOrder), result.block());
  return result;
}

// ---- Whole arrays, at every rank

/// All elements, row by row.
template <class T, std::size_t Dimensions>
[[nodiscard]] std::vector<T> gather_all(const Array<T, Dimensions>& a) {
  const Box all = a.layout().all();
  Block copy = a.world().allocate(all.size() * sizeof(T));
  const auto wants = [all](team::Rank /*rank*/) -> std::vector<Want> { return {{all, all.first, all}}; };
  a.world().transfer(a.layout(), a.block(), sizeof(T), wants, copy);
  const T* const elements = reinterpret_cast<const T*>(copy.data());
  return {elements, elements + all.size()};
}

/// Returns an array of the elements `all`, row by row, which every rank has. Throws UsageError when their number
/// differs.
template <class T, std::size_t Dimensions>
[[nodiscard]] Array<T, Dimensions> from_all(World& world, const Extents<Dimensions>& extents, std::span<const T> all,
                                            const Distribution<Dimensions>& distribution = {}) {
  Array<T, Dimensions> array(world, extents, distribution);
  const Box whole = array.layout().all();
  check_count(all.size(), whole.size());
  const Box own = array.own();
  for (std::int64_t i = own.first[0]; i < own.last[0]; ++i) {
    for (std::int64_t j = own.first[1]; j < own.last[1]; ++j) {
      const std::int64_t at = whole.position({i, j, own.first[2]});
      std::copy_n(all.begin() + at, own.extent(2), array.row(i - own.first[0], j - own.first[1]));
    }
  }
  return array;
}

/// One element, at every rank. Throws UsageError when there is no such element.
template <class T, std::size_t Dimensions>
[[nodiscard]] T element(const Array<T, Dimensions>& a, const Extents<Dimensions>& index) {
  Index at{};
  std::copy(index.begin(), index.end(), at.end() - Dimensions);
  check_inside(a.layout(), at);
  const Box own = a.own();
  const bool is_own = a.layout().owner(at) == a.world().rank();
  const Index here = difference(at, own.first);
  const T mine = is_own ? a.row(here[0], here[1])[here[2]] : T{};
  struct Found {
    T value;
    bool is_it;
  };
  const auto found = [](const Found& x, const Found& y) { return y.is_it ? y : x; };
  return a.world().all_reduce(Found{mine, is_own}, found).value;
}

}  // namespace farside::arrays
