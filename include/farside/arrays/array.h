// array.h — an array of one to three dimensions, dealt out to the ranks in blocks.
//
//   World world(*team);
//   Array<double, 2> a(world, {1024, 1024});
//   a.set_each([](auto i, auto j) { return i == 0 ? 1.0 : 0.0; });
//   Array<double, 2> b = 0.5 * (a + cshift(a, 0, 1));
//
// All ranks make, use and drop the same arrays in the same order. Copies are copies of the elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "farside/arrays/chunks.h"
#include "farside/arrays/expression.h"
#include "farside/arrays/world.h"
#include "farside/base/error.h"

namespace farside::arrays {

template <std::size_t Dimensions>
using Extents = std::array<std::int64_t, Dimensions>;

/// How an array is dealt out. The same at all ranks.
template <std::size_t Dimensions>
struct Distribution {
  Extents<Dimensions> parts{};  ///< of each axis, as many in all as ranks; 0: as fits, and as even as can be
  Extents<Dimensions> halo{};   ///< ghost cells before and after each block
};

/// Elements in this rank's memory, by index from its first: view(i, j) is data[i * strides[0] + j * strides[1]]. Ghost
/// cells have indices below 0 and from the extent on. Valid until the array is next assigned, dropped or exchanged.
template <class T, std::size_t Dimensions>
struct View {
  T* data;
  Extents<Dimensions> extents;
  Extents<Dimensions> strides;

  template <std::convertible_to<std::int64_t>... Indices>
  requires(sizeof...(Indices) == Dimensions) T& operator()(Indices... indices) const {
    const Extents<Dimensions> at = {static_cast<std::int64_t>(indices)...};
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < Dimensions; ++axis) offset += at[axis] * strides[axis];
    return data[offset];
  }
};

/// Throws UsageError when there is no such axis; gives its place among kAxes.
[[nodiscard]] std::size_t place_of_axis(std::size_t axis, std::size_t dimensions);

/// Returns the layout of `extents`, divided into `parts`, over `ranks` ranks, as three axes. Throws UsageError when
/// there is none.
[[nodiscard]] Layout make_layout(std::uint32_t ranks, std::span<const std::int64_t> extents,
                                 std::span<const std::int64_t> parts, std::span<const std::int64_t> halo);

template <Element T, std::size_t Dimensions>
class Array {
  static_assert(Dimensions >= 1 && Dimensions <= kAxes);

 public:
  using value_type = T;
  static constexpr std::size_t kDimensions = Dimensions;

  /// An array of zeros. Throws UsageError for negative extents, and parts that are not as many as ranks.
  Array(World& world, const Extents<Dimensions>& extents, const Distribution<Dimensions>& distribution = {})
      : Array(world, make_layout(world.size(), extents, distribution.parts, distribution.halo)) {
    const std::uint64_t bytes = layout_.stored(world.rank()).size() * sizeof(T);
    std::fill_n(block_.data(), bytes, std::byte{});
  }
  /// The value of an expression, without ghost cells. (Not explicit, so that it reads like a formula.)
  template <ArrayLike E>
  requires(!std::is_same_v<std::remove_cvref_t<E>, Array>)
      Array(E&& expression)  // NOLINT(bugprone-forwarding-reference-overload): it hides nothing
      : Array(of_operand(operand(std::forward<E>(expression)))) {}

  /// Ghost cells and all.
  Array(const Array& other) : Array(*other.world_, other.layout_) {
    std::copy_n(other.block_.data(), layout_.stored(world_->rank()).size() * sizeof(T), block_.data());
  }
  Array(Array&& other) noexcept = default;
  Array& operator=(Array&& other) noexcept = default;
  /// As with an expression when both have the same shape and parts; else a copy, ghost cells and all.
  Array& operator=(const Array& other) {
    if (this == &other) return *this;
    if (layout_.matches(other.layout_)) return assign(operand(other), layout_.all());
    return *this = Array(other);
  }
  ~Array() = default;

  /// Every element; those of `*this` in the expression are what they were before. Throws UsageError when shapes differ.
  template <Operand E>
  requires(!std::is_same_v<std::remove_cvref_t<E>, Array>) Array& operator=(E&& expression) {
    return assign(std::forward<E>(expression), layout_.all());
  }
  /// Those of the elements that are in `part`, which is in global indices.
  template <Operand E>
  Array& assign(E&& expression, const Box& part);

  template <Operand E>
  Array& operator+=(E&& expression) {
    return *this = *this + std::forward<E>(expression);
  }
  template <Operand E>
  Array& operator-=(E&& expression) {
    return *this = *this - std::forward<E>(expression);
  }
  template <Operand E>
  Array& operator*=(E&& expression) {
    return *this = *this * std::forward<E>(expression);
  }
  template <Operand E>
  Array& operator/=(E&& expression) {
    return *this = *this / std::forward<E>(expression);
  }

  /// This rank's elements, each to `function` of its global index. By one thread.
  template <class Function>
  Array& set_each(Function function);

  // Shape.

  [[nodiscard]] World& world() const { return *world_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] Extents<Dimensions> extents() const { return outer(layout_.extents()); }
  /// Throws UsageError when there is no such axis.
  [[nodiscard]] std::int64_t extent(std::size_t axis) const {
    return layout_.extents()[place_of_axis(axis, Dimensions)];
  }
  /// This rank's block, in global indices: from `first` to before `last`.
  [[nodiscard]] Extents<Dimensions> first() const { return outer(own().first); }
  [[nodiscard]] Extents<Dimensions> last() const { return outer(own().last); }
  [[nodiscard]] Box own() const { return layout_.own(world_->rank()); }

  // This rank's elements.

  /// Row by row. Throws UsageError when there are ghost cells between them.
  [[nodiscard]] std::span<const T> local() const { return {whole(), own().size()}; }
  [[nodiscard]] std::span<T> local() {
    world_->about_to_change(block_);
    return {whole(), own().size()};
  }
  [[nodiscard]] View<const T, Dimensions> view() const { return view_of<const T>(row(0, 0)); }
  [[nodiscard]] View<T, Dimensions> view() {
    world_->about_to_change(block_);
    return view_of<T>(row(0, 0));
  }

  // For operations that are built on it.

  /// An array whose elements are not set.
  Array(World& world, const Layout& layout)
      : world_(&world), layout_(layout), block_(world.allocate(layout.capacity() * sizeof(T))) {
    const Box stored = layout.stored(world.rank());
    strides_ = {stored.extent(1) * stored.extent(2), stored.extent(2), 1};
    begin_ = reinterpret_cast<T*>(block_.data()) + stored.position(own().first);
  }
  [[nodiscard]] Domain domain() const { return {world_, &layout_}; }
  [[nodiscard]] T* row(std::int64_t i, std::int64_t j) const { return begin_ + i * strides_[0] + j * strides_[1]; }
  [[nodiscard]] const std::byte* block_data() const { return block_.data(); }
  /// Sending from it leaves its elements as they are.
  [[nodiscard]] Block& block() const { return block_; }

 private:
  static Extents<Dimensions> outer(const Index& index) {
    Extents<Dimensions> extents;
    std::copy_n(index.end() - Dimensions, Dimensions, extents.begin());
    return extents;
  }
  template <class E>
  static Array of_operand(const E& expression) {
    const Domain domain = expression.domain();
    const Layout& layout = *domain.layout;
    Array array(*domain.world, Layout(layout.extents(), layout.parts(), {}, domain.world->size()));
    array.compute(expression, array.own());
    return array;
  }
  template <class E>
  void compute(const E& expression, const Box& part);
  [[nodiscard]] T* whole() const {
    if (layout_.halo() == Index{}) return reinterpret_cast<T*>(block_.data());
    throw UsageError({"take the elements of an array as one span", layout_.text(), "there are ghost cells between them",
                      "use view()"});
  }
  template <class U>
  [[nodiscard]] View<U, Dimensions> view_of(U* first) const {
    const Box own_box = own();
    return {first, outer(difference(own_box.last, own_box.first)), outer(strides_)};
  }

  World* world_;
  Layout layout_;
  mutable Block block_;
  Index strides_;
  T* begin_;  ///< this rank's first element
};

/// `Array(2 * a)` for operations that take arrays.
template <ArrayLike E>
Array(E&&) -> Array<typename OperandOf<E>::value_type, OperandOf<E>::kDimensions>;

// ---- Computing

/// The elements of a row in steps whose number the compiler knows, so that it uses vector instructions for them.
inline constexpr std::int64_t kStep = 32;

template <class T, class Row>
void compute_row(T* into, const Row& row, std::int64_t begin, std::int64_t end) {
  std::int64_t k = begin;
  for (; k + kStep <= end; k += kStep) {
#if !defined(__clang__)
#pragma GCC ivdep  // an element depends on no other one of `into`: compute() sees to it
#endif
    for (std::int64_t step = 0; step < kStep; ++step) into[k + step] = static_cast<T>(row[k + step]);
  }
  for (; k < end; ++k) into[k] = static_cast<T>(row[k]);
}

template <Element T, std::size_t Dimensions>
template <class E>
void Array<T, Dimensions>::compute(const E& expression, const Box& part) {
  const Box own_box = own();
  const Box here = common_part(part, own_box);
  const Chunks chunks({difference(here.first, own_box.first), difference(here.last, own_box.first)});
  world_->threads().run(chunks.count(), Chunks::kGrain, [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t chunk = first; chunk < last; ++chunk) {
      chunks.for_each_row(chunk, [&](std::int64_t i, std::int64_t j, std::int64_t begin, std::int64_t end) {
        compute_row(row(i, j), expression.row(i, j), begin, end);
      });
    }
  });
}

template <Element T, std::size_t Dimensions>
template <Operand E>
Array<T, Dimensions>& Array<T, Dimensions>::assign(E&& expression, const Box& part) {
  const auto given = operand(std::forward<E>(expression));
  const Domain domain = given.domain();
  if (domain.layout != nullptr && !domain.layout->matches(layout_)) refuse_different(layout_, *domain.layout);
  if (given.reads_around(block_data())) {
    throw UsageError({"assign to an array", layout_.text(), "the expression reads what is around its elements",
                      "assign to another one"});
  }
  world_->about_to_change(block_);
  compute(given, part);
  return *this;
}

template <Element T, std::size_t Dimensions>
template <class Function>
Array<T, Dimensions>& Array<T, Dimensions>::set_each(Function function) {
  world_->about_to_change(block_);
  const Box box = own();
  for (std::int64_t i = box.first[0]; i < box.last[0]; ++i) {
    for (std::int64_t j = box.first[1]; j < box.last[1]; ++j) {
      T* const into = row(i - box.first[0], j - box.first[1]);
      for (std::int64_t k = box.first[2]; k < box.last[2]; ++k) {
        into[k - box.first[2]] = std::apply(function, outer({i, j, k}));
      }
    }
  }
  return *this;
}

/// The global index of each element on `axis`, for expressions. `array` outlives it.
template <class T, std::size_t Dimensions>
[[nodiscard]] Coordinate<Dimensions> coordinate(const Array<T, Dimensions>& array, std::size_t axis) {
  return {array.domain(), array.own().first, place_of_axis(axis, Dimensions)};
}

/// The elements so many steps from each, which must not be more than the halo: for stencils. `array` outlives it.
template <class T, std::size_t Dimensions>
[[nodiscard]] Read<T, Dimensions> neighbour(const Array<T, Dimensions>& array, const Extents<Dimensions>& step) {
  Index steps{};
  std::copy(step.begin(), step.end(), steps.end() - Dimensions);
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    const std::int64_t halo = array.layout().halo()[axis];
    if (-halo <= steps[axis] && steps[axis] <= halo) continue;
    throw UsageError({"read around the elements of an array", array.layout().text(), "it has fewer ghost cells",
                      "give it a halo for steps of " + std::to_string(steps[axis])});
  }
  return Read<T, Dimensions>(array, steps);
}

}  // namespace farside::arrays
