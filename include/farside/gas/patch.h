// patch.h — boxes of an n-dimensional array that lies row by row in a GlobalArray.
//
//   get_patch(field, Extents{rows, columns}, Patch<2>{{10, 20}, {4, 8}}, values);   // 4 rows of 8 columns
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "farside/gas/global_array.h"

namespace farside::gas {

template <std::size_t Dimensions>
using Shape = std::array<std::uint64_t, Dimensions>;

/// How many elements it has; the largest number there is when they are more than can be counted.
template <std::size_t Dimensions>
[[nodiscard]] std::uint64_t elements_of(const Shape<Dimensions>& counts) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  if (std::ranges::count(counts, 0U) != 0) return 0;
  std::uint64_t all = 1;
  for (const std::uint64_t count : counts) all = all > kMax / count ? kMax : all * count;
  return all;
}

/// The box of elements from `first` on.
template <std::size_t Dimensions>
struct Patch {
  static_assert(Dimensions >= 1);

  Shape<Dimensions> first;
  Shape<Dimensions> counts;

  [[nodiscard]] std::uint64_t size() const { return elements_of(counts); }
};

/// Throws UsageError when `patch` is not within `shape`, or that has more than `elements`.
template <std::size_t Dimensions>
void check_patch(std::uint64_t elements, const Shape<Dimensions>& shape, const Patch<Dimensions>& patch) {
  if (elements_of(shape) > elements) {
    throw UsageError({"use a patch", "a shape of " + std::to_string(elements_of(shape)) + " elements or more",
                      "the array has " + std::to_string(elements), "give the shape that the array has"});
  }
  for (std::size_t axis = 0; axis < Dimensions; ++axis) {
    if (patch.first[axis] <= shape[axis] && patch.counts[axis] <= shape[axis] - patch.first[axis]) continue;
    throw UsageError({"use a patch", "axis " + std::to_string(axis),
                      std::to_string(patch.counts[axis]) + " from " + std::to_string(patch.first[axis]) +
                          " on are not within " + std::to_string(shape[axis]),
                      ""});
  }
}

/// Calls `visit(index, at, count)` for each row of `patch`: its first index in the array of `shape`, which has
/// `elements` at most, and among the patch's own elements. Throws UsageError when it is not within.
template <std::size_t Dimensions, class Visit>
void for_each_row(std::uint64_t elements, const Shape<Dimensions>& shape, const Patch<Dimensions>& patch, Visit visit) {
  check_patch(elements, shape, patch);
  const std::uint64_t row = patch.counts[Dimensions - 1];
  const std::uint64_t size = patch.size();
  for (std::uint64_t at = 0; at < size; at += row) {
    std::uint64_t index = 0;
    std::uint64_t stride = 1;
    std::uint64_t rest = at / row;
    for (std::size_t axis = Dimensions; axis-- > 0;) {
      const bool is_row = axis == Dimensions - 1;
      index += (patch.first[axis] + (is_row ? 0 : rest % patch.counts[axis])) * stride;
      if (!is_row) rest /= patch.counts[axis];
      stride *= shape[axis];
    }
    visit(index, at, row);
  }
}

/// Before anything is begun: nothing else is under way, and the patch is one of the array and has as many elements as
/// there are `values`. Throws UsageError otherwise.
template <comm::Sendable T, std::size_t Dimensions>
void check_transfer(GlobalArray<T>& array, const Shape<Dimensions>& shape, const Patch<Dimensions>& patch,
                    std::uint64_t values) {
  array.pages().check_closed();
  check_patch(array.size(), shape, patch);
  if (values == patch.size()) return;
  throw UsageError({"use a patch", "a buffer of " + std::to_string(values) + " elements",
                    "the patch has " + std::to_string(patch.size()), "give as many"});
}

/// `into` has patch.size() elements, row by row. All of the patch is under way at once. UsageError is thrown for a
/// patch that is not within the array, and for another number of elements.
template <comm::Sendable T, std::size_t Dimensions>
comm::Status get_patch(GlobalArray<T>& array, const Shape<Dimensions>& shape, const Patch<Dimensions>& patch,
                       std::span<T> into) {
  check_transfer(array, shape, patch, into.size());
  for_each_row(array.size(), shape, patch, [&](std::uint64_t index, std::uint64_t at, std::uint64_t count) {
    array.begin_get(index, into.subspan(at, count));
  });
  return array.finish();
}

template <comm::Sendable T, std::size_t Dimensions>
comm::Status put_patch(GlobalArray<T>& array, const Shape<Dimensions>& shape, const Patch<Dimensions>& patch,
                       std::span<const T> from) {
  check_transfer(array, shape, patch, from.size());
  for_each_row(array.size(), shape, patch, [&](std::uint64_t index, std::uint64_t at, std::uint64_t count) {
    array.begin_put(index, from.subspan(at, count));
  });
  return array.finish();
}

/// Brings all pages with elements of the patch to this rank.
template <comm::Sendable T, std::size_t Dimensions>
Moved own_patch(GlobalArray<T>& array, const Shape<Dimensions>& shape, const Patch<Dimensions>& patch) {
  array.pages().check_closed();  // before memory may be lacking: see GlobalArray
  std::vector<Range> rows;
  for_each_row(array.size(), shape, patch, [&](std::uint64_t index, std::uint64_t /*at*/, std::uint64_t count) {
    rows.push_back({index, count});
  });
  return array.own_many(rows);
}

}  // namespace farside::gas
