// matrix.h — vectors as operands of matrices, and products.
//
//   b = a * as_row(x, a);                  // b(i, j) = a(i, j) * x(j)
//   y = multiply(a, x);                    // y(i) = the sum of a(i, j) * x(j)
//   c = multiply(a, b);                    // of two matrices
//
// Sums are in an order that depends on shapes and distributions alone. Collective.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "farside/arrays/move.h"
#include "farside/arrays/reduce.h"

namespace farside::arrays {

/// A box of an array, at a rank that wants it. Boxes at different ranks may overlap.
template <class T>
class Fetched {
 public:
  /// `box` says what each rank wants: of at most `capacity` elements.
  template <std::size_t Dimensions, class BoxOf>
  Fetched(const Array<T, Dimensions>& from, std::uint64_t capacity, BoxOf box)
      : box_(box(from.world().rank())),
        memory_(from.world().allocate(capacity * sizeof(T))),
        transfer_(from.world().begin_transfer(
            from.layout(), from.block(), sizeof(T),
            [&](team::Rank rank) -> std::vector<Want> {
              return {{box(rank), box(rank).first, box(rank)}};
            },
            memory_)) {}

  /// Before its elements are looked at. At all ranks alike.
  void end() { transfer_.end(); }
  [[nodiscard]] const T* row(std::int64_t j) const {
    return reinterpret_cast<const T*>(memory_.data()) + j * box_.extent(2);
  }

 private:
  Box box_;
  Block memory_;
  Transfer transfer_;
};

/// A vector that lies along axis `Along`, counted among kAxes, of the matrix `like`: one whose rows, or columns, are
/// all the same. For expressions with `like`, which outlives it.
template <class T, std::size_t Along>
class Spread {
 public:
  using value_type = T;
  static constexpr std::size_t kDimensions = 2;

  template <class U>
  Spread(const Array<T, 1>& x, const Array<U, 2>& like) : domain_(like.domain()), part_(fetch(x, like.layout())) {
    part_.end();
  }
  [[nodiscard]] Domain domain() const { return domain_; }
  [[nodiscard]] bool reads_around(const std::byte* /*data*/) const { return false; }
  [[nodiscard]] auto row(std::int64_t /*i*/, std::int64_t j) const {
    if constexpr (Along == kAxes - 1) {
      return part_.row(0);
    } else {
      return Scalar<T>(part_.row(0)[j]);
    }
  }

 private:
  static Fetched<T> fetch(const Array<T, 1>& x, const Layout& like) {
    check_extents("spread a vector", x.extent(0), like.extents()[Along]);
    const auto capacity = static_cast<std::uint64_t>(like.extents()[Along] / like.parts()[Along] + 1);
    return Fetched<T>(x, capacity, [&like](team::Rank rank) {
      const Box own = like.own(rank);
      return Box{{0, 0, own.first[Along]}, {1, 1, own.last[Along]}};
    });
  }

  Domain domain_;
  Fetched<T> part_;
};

template <class T, class U>
[[nodiscard]] Spread<T, 2> as_row(const Array<T, 1>& x, const Array<U, 2>& like) {
  return Spread<T, 2>(x, like);
}
template <class T, class U>
[[nodiscard]] Spread<T, 1> as_column(const Array<T, 1>& x, const Array<U, 2>& like) {
  return Spread<T, 1>(x, like);
}

template <class T>
[[nodiscard]] Array<T, 1> multiply(const Array<T, 2>& a, const Array<T, 1>& x) {
  return sum(a * as_row(x, a), 1);
}

/// Columns of the left matrix, and rows of the right one, that are fetched at once.
inline constexpr std::int64_t kPanel = 128;

/// A row to which Count multiples of others are added, one after the other.
template <class T, std::size_t Count>
struct WithMultiples {
  const T* row;
  std::array<T, Count> factors;
  std::array<const T*, Count> others;

  T operator[](std::int64_t k) const {
    T sum = row[k];
    for (std::size_t each = 0; each < Count; ++each) sum += factors[each] * others[each][k];
    return sum;
  }
};

/// into += left * right, for one row of the product; `depth` is that of the panels.
template <class T>
void add_product(T* into, const T* left, const Fetched<T>& right, std::int64_t depth, std::int64_t columns) {
  const auto add = [&]<std::size_t... Each>(std::int64_t along, std::index_sequence<Each...>) {
    const WithMultiples<T, sizeof...(Each)> sums = {
        into, {left[along + Each]...}, {right.row(along + static_cast<std::int64_t>(Each))...}};
    compute_row(into, sums, 0, columns);
  };
  std::int64_t along = 0;
  for (; along + 4 <= depth; along += 4) add(along, std::make_index_sequence<4>());
  for (; along < depth; ++along) add(along, std::make_index_sequence<1>());
}

/// In the parts of `a`. While one panel is computed with, the next one is on its way.
template <class T>
[[nodiscard]] Array<T, 2> multiply(const Array<T, 2>& a, const Array<T, 2>& b) {
  check_extents("multiply matrices", b.extent(0), a.extent(1));
  World& world = a.world();
  const Index& parts = a.layout().parts();
  Array<T, 2> c(world, {a.extent(0), b.extent(1)}, {.parts = {parts[1], parts[2]}});
  const Layout& layout = c.layout();
  const Box own = c.own();
  const auto capacity = [&layout](std::size_t axis) {
    return static_cast<std::uint64_t>(layout.extents()[axis] / layout.parts()[axis] + 1) * kPanel;
  };
  struct Panel {
    Fetched<T> left;
    Fetched<T> right;
    std::int64_t depth;
  };
  const auto fetch = [&](std::int64_t first) -> std::optional<Panel> {
    const std::int64_t last = std::min(first + kPanel, a.extent(1));
    if (first >= last) return {};
    const auto rows = [&layout, first, last](team::Rank rank) {
      return Box{{0, layout.own(rank).first[1], first}, {1, layout.own(rank).last[1], last}};
    };
    const auto columns = [&layout, first, last](team::Rank rank) {
      return Box{{0, first, layout.own(rank).first[2]}, {1, last, layout.own(rank).last[2]}};
    };
    return Panel{Fetched<T>(a, capacity(1), rows), Fetched<T>(b, capacity(2), columns), last - first};
  };

  std::optional<Panel> next = fetch(0);
  for (std::int64_t first = kPanel; next; first += kPanel) {
    Panel panel = std::move(*next);
    next = fetch(first);
    panel.left.end();
    panel.right.end();
    world.threads().run(static_cast<std::uint64_t>(own.extent(1)), 8, [&](std::uint64_t begin, std::uint64_t end) {
      for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end); ++i) {
        add_product(c.row(0, i), panel.left.row(i), panel.right, panel.depth, own.extent(2));
      }
    });
  }
  return c;
}

}  // namespace farside::arrays
