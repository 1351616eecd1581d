// reduce.h — sums and the like, of arrays and expressions: over all elements, or along one axis.
//
// Elements are combined in an order that depends on the shape and the distribution alone: not on threads, nor on which
// rank comes first, nor on `strict`. All ranks get the same bits. Collective.
//
//   sum(a * b);  maximum(abs(a - b));  count(a > 0);     // a number
//   sum(a, 0);                                           // an array with one axis less
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "farside/arrays/move.h"

namespace farside::arrays {

/// How values are combined, and what changes none of them: what there is of no elements.
template <class T>
struct Sum {
  static constexpr T kNeutral = T{};
  T operator()(T a, T b) const { return static_cast<T>(a + b); }
};
template <class T>
struct Product {
  static constexpr T kNeutral = T{1};
  T operator()(T a, T b) const { return static_cast<T>(a * b); }
};
template <class T>
struct Minimum {
  static constexpr T kNeutral =
      std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct Maximum {
  static constexpr T kNeutral =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  T operator()(T a, T b) const { return a < b ? b : a; }
};
struct And {
  static constexpr bool kNeutral = true;
  bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
  static constexpr bool kNeutral = false;
  bool operator()(bool a, bool b) const { return a || b; }
};

/// Values that are combined side by side, so that the compiler uses vector instructions and one addition need not wait
/// for the one before. Element k of a row goes to lane k mod kLanes.
template <class T, class Operator>
class Lanes {
 public:
  static constexpr std::int64_t kLanes = 16;

  Lanes() { lanes_.fill(Operator::kNeutral); }

  template <class Row>
  void add(const Row& row, std::int64_t begin, std::int64_t end) {
    std::int64_t k = begin;
    std::array<T, kLanes> lanes = lanes_;  // in registers
    for (; k + kLanes <= end; k += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = Operator()(lanes[lane], static_cast<T>(row[k + lane]));
      }
    }
    for (std::int64_t lane = 0; k < end; ++k, ++lane) lanes[lane] = Operator()(lanes[lane], static_cast<T>(row[k]));
    lanes_ = lanes;
  }
  [[nodiscard]] T all() const {
    T result = Operator::kNeutral;
    for (const T lane : lanes_) result = Operator()(result, lane);
    return result;
  }

 private:
  std::array<T, kLanes> lanes_;
};

/// All elements of `expression`, as values of type T.
template <class T, class Operator, ArrayLike E>
[[nodiscard]] T reduce(E&& expression) {
  const auto given = operand(std::forward<E>(expression));
  World& world = *given.domain().world;
  const Box own = given.domain().layout->own(world.rank());
  const Chunks chunks(own.moved(difference({}, own.first)));
  struct Partial {
    T value;
  };
  std::vector<Partial> partials(chunks.count());
  world.threads().run(chunks.count(), Chunks::kGrain, [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t chunk = first; chunk < last; ++chunk) {
      Lanes<T, Operator> lanes;
      chunks.for_each_row(chunk, [&](std::int64_t i, std::int64_t j, std::int64_t begin, std::int64_t end) {
        lanes.add(given.row(i, j), begin, end);
      });
      partials[chunk].value = lanes.all();
    }
  });
  T result = Operator::kNeutral;
  for (const Partial& partial : partials) result = Operator()(result, partial.value);
  return world.all_reduce(result, Operator());
}

/// Element by element along `place`, for the block of a rank, which has `extents`; into `results`, row by row.
template <class T, class Operator, class E>
void reduce_rows(const Threads& threads, const E& expression, const Index& extents, std::size_t place, T* results) {
  if (place == kAxes - 1) {
    const auto rows = static_cast<std::uint64_t>(extents[0] * extents[1]);
    const auto row_elements = static_cast<std::uint64_t>(std::max<std::int64_t>(1, extents[2]));
    const std::uint64_t grain = Chunks::kGrain * Chunks::kChunk / row_elements + 1;
    threads.run(rows, grain, [&](std::uint64_t first, std::uint64_t last) {
      for (auto row = static_cast<std::int64_t>(first); row < static_cast<std::int64_t>(last); ++row) {
        Lanes<T, Operator> lanes;
        lanes.add(expression.row(row / extents[1], row % extents[1]), 0, extents[2]);
        results[row] = lanes.all();
      }
    });
    return;
  }
  // Rows are combined as a whole, a stretch of them by each thread.
  const std::int64_t outer = extents[1 - place];
  constexpr std::int64_t kStretch = 1024;
  const std::int64_t cuts = (extents[2] + kStretch - 1) / kStretch;
  threads.run(static_cast<std::uint64_t>(outer * cuts), 1, [&](std::uint64_t first, std::uint64_t last) {
    for (auto each = static_cast<std::int64_t>(first); each < static_cast<std::int64_t>(last); ++each) {
      T* const into = results + each / cuts * extents[2];
      const std::int64_t begin = each % cuts * kStretch;
      const std::int64_t end = std::min(begin + kStretch, extents[2]);
      std::fill(into + begin, into + end, Operator::kNeutral);
      for (std::int64_t along = 0; along < extents[place]; ++along) {
        const auto row = place == 0 ? expression.row(along, each / cuts) : expression.row(each / cuts, along);
        for (std::int64_t k = begin; k < end; ++k) into[k] = Operator()(into[k], static_cast<T>(row[k]));
      }
    }
  });
}

/// How the results of a reduction along `place` are dealt out: as the array is when that axis is not cut, otherwise
/// evenly. One part on that axis.
[[nodiscard]] Layout layout_along(const Layout& layout, std::size_t place, std::size_t dimensions);
/// The same without that axis.
[[nodiscard]] Layout without_axis(const Layout& layout, std::size_t place);

/// Along `axis`: an array with one dimension less.
template <class T, class Operator, ArrayLike E>
[[nodiscard]] auto reduce(E&& expression, std::size_t axis) {
  constexpr std::size_t kDimensions = OperandOf<E>::kDimensions;
  static_assert(kDimensions > 1, "an array of one dimension is reduced to a number");
  const std::size_t place = place_of_axis(axis, kDimensions);
  const auto given = operand(std::forward<E>(expression));
  World& world = *given.domain().world;
  const Layout& layout = *given.domain().layout;

  // The result for each part of the axis, in an array that has one element for each.
  Index extents = layout.extents();
  extents[place] = layout.parts()[place];
  Array<T, kDimensions> partial(world, Layout(extents, layout.parts(), {}, world.size()));
  const Box own = layout.own(world.rank());
  if (!partial.own().empty()) {
    reduce_rows<T, Operator>(world.threads(), given, difference(own.last, own.first), place, partial.local().data());
  }
  Array<T, kDimensions> together(world, layout_along(partial.layout(), place, kDimensions));
  world.transfer(partial.layout(), partial.block(), sizeof(T), reordered(together.layout(), kSameOrder),
                 together.block());

  Array<T, kDimensions - 1> result(world, without_axis(together.layout(), place));
  const Box parts = together.own();
  if (!result.own().empty()) {
    reduce_rows<T, Operator>(world.threads(), operand(together), difference(parts.last, parts.first), place,
                             result.local().data());
  }
  return result;
}

template <class E>
using ValueOf = typename OperandOf<E>::value_type;

/// Each takes an array or an expression, and an axis or none.
template <ArrayLike E, class... Axis>
[[nodiscard]] auto sum(E&& e, Axis... axis) {
  return reduce<ValueOf<E>, Sum<ValueOf<E>>>(std::forward<E>(e), axis...);
}
template <ArrayLike E, class... Axis>
[[nodiscard]] auto product(E&& e, Axis... axis) {
  return reduce<ValueOf<E>, Product<ValueOf<E>>>(std::forward<E>(e), axis...);
}
/// The least element; if there is none, infinity, or the largest value there is.
template <ArrayLike E, class... Axis>
[[nodiscard]] auto minimum(E&& e, Axis... axis) {
  return reduce<ValueOf<E>, Minimum<ValueOf<E>>>(std::forward<E>(e), axis...);
}
/// The greatest element; if there is none, minus infinity, or the lowest value there is.
template <ArrayLike E, class... Axis>
[[nodiscard]] auto maximum(E&& e, Axis... axis) {
  return reduce<ValueOf<E>, Maximum<ValueOf<E>>>(std::forward<E>(e), axis...);
}
template <ArrayLike E, class... Axis>
[[nodiscard]] auto all(E&& e, Axis... axis) {
  return reduce<bool, And>(std::forward<E>(e), axis...);
}
template <ArrayLike E, class... Axis>
[[nodiscard]] auto any(E&& e, Axis... axis) {
  return reduce<bool, Or>(std::forward<E>(e), axis...);
}
/// How many are not 0.
template <ArrayLike E, class... Axis>
[[nodiscard]] auto count(E&& e, Axis... axis) {
  return reduce<std::int64_t, Sum<std::int64_t>>(as<bool>(std::forward<E>(e)), axis...);
}
template <ArrayLike A, ArrayLike B>
[[nodiscard]] auto dot(A&& a, B&& b) {
  return sum(std::forward<A>(a) * std::forward<B>(b));
}

}  // namespace farside::arrays
