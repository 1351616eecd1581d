// expression.h — elementwise arithmetic on arrays, computed in one pass when it is assigned: no temporaries.
//
//   a = 0.25 * (b + c);
//   const Array<double, 2> d = where(a < b, sqrt(a), 0.0);
//
// An operand is an array, a scalar, or an expression of these. Arrays that are named are referred to, and outlive the
// expression; those that an operation has just made are kept in it. All have the same extents and parts.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "farside/arrays/layout.h"
#include "farside/base/error.h"
#include "farside/comm/sendable.h"

namespace farside::arrays {

class World;

/// A type that can be an element.
template <class T>
concept Element = comm::Sendable<T> &&
    (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);

template <Element T, std::size_t Dimensions>
class Array;

/// The place of an operand's elements; no world for scalars.
struct Domain {
  World* world = nullptr;
  const Layout* layout = nullptr;
};

/// Has a value at each place of a domain: rows of them, counted from this rank's first element.
template <class E>
concept Expression = requires(const E& expression, std::int64_t at, const std::byte* data) {
  typename E::value_type;
  { E::kDimensions } -> std::convertible_to<std::size_t>;  // 0 for scalars
  { expression.domain() } -> std::same_as<Domain>;
  { expression.row(at, at)[at] } -> std::convertible_to<typename E::value_type>;
  { expression.reads_around(data) } -> std::same_as<bool>;
};

template <class T>
class Scalar {
 public:
  using value_type = T;
  static constexpr std::size_t kDimensions = 0;

  explicit Scalar(T value) : value_(value) {}
  [[nodiscard]] Domain domain() const { return {}; }
  [[nodiscard]] bool reads_around(const std::byte* /*data*/) const { return false; }
  [[nodiscard]] Scalar row(std::int64_t /*i*/, std::int64_t /*j*/) const { return *this; }
  T operator[](std::int64_t /*k*/) const { return value_; }

 private:
  T value_;
};

/// The elements of a named array, or those so many steps away from them.
template <class T, std::size_t Dimensions>
class Read {
 public:
  using value_type = T;
  static constexpr std::size_t kDimensions = Dimensions;

  explicit Read(const Array<T, Dimensions>& array, const Index& step = {}) : array_(&array), step_(step) {}
  [[nodiscard]] Domain domain() const { return array_->domain(); }
  [[nodiscard]] bool reads_around(const std::byte* data) const {
    return step_ != Index{} && data == array_->block_data();
  }
  [[nodiscard]] const T* row(std::int64_t i, std::int64_t j) const {
    return array_->row(i + step_[0], j + step_[1]) + step_[2];
  }

 private:
  const Array<T, Dimensions>* array_;
  Index step_;
};

/// An array that only this expression holds.
template <class T, std::size_t Dimensions>
class Keep {
 public:
  using value_type = T;
  static constexpr std::size_t kDimensions = Dimensions;

  explicit Keep(Array<T, Dimensions>&& array) : array_(std::move(array)) {}
  [[nodiscard]] Domain domain() const { return array_.domain(); }
  [[nodiscard]] bool reads_around(const std::byte* /*data*/) const { return false; }
  [[nodiscard]] const T* row(std::int64_t i, std::int64_t j) const { return array_.row(i, j); }

 private:
  Array<T, Dimensions> array_;
};

/// The global index of each element on one axis.
template <std::size_t Dimensions>
class Coordinate {
 public:
  using value_type = std::int64_t;
  static constexpr std::size_t kDimensions = Dimensions;

  Coordinate(const Domain& domain, const Index& first, std::size_t axis)
      : domain_(domain), first_(first), axis_(axis) {}
  [[nodiscard]] Domain domain() const { return domain_; }
  [[nodiscard]] bool reads_around(const std::byte* /*data*/) const { return false; }

  struct Row {
    std::int64_t first;
    std::int64_t step;
    std::int64_t operator[](std::int64_t k) const { return first + k * step; }
  };
  [[nodiscard]] Row row(std::int64_t i, std::int64_t j) const {
    const Index at = {i, j, 0};
    return {first_[axis_] + at[axis_], axis_ == kAxes - 1 ? 1 : 0};
  }

 private:
  Domain domain_;
  Index first_;
  std::size_t axis_;
};

/// Throws UsageError.
[[noreturn]] void refuse_different(const Layout& a, const Layout& b);

/// `function` of the operands, element by element.
template <class Function, Expression... Operands>
class Map {
 public:
  static constexpr std::size_t kDimensions = std::max({Operands::kDimensions...});
  static_assert(((Operands::kDimensions == 0 || Operands::kDimensions == kDimensions) && ...),
                "operands have as many dimensions as each other");
  using value_type = std::remove_cvref_t<std::invoke_result_t<Function, typename Operands::value_type...>>;

  explicit Map(Function function, Operands... operands)
      : function_(std::move(function)), operands_(std::move(operands)...) {
    Domain first;
    std::apply([&first](const auto&... each) { (check(first, each.domain()), ...); }, operands_);
  }

  [[nodiscard]] Domain domain() const {
    Domain found;
    const auto note = [&found](const Domain& each) {
      if (found.layout == nullptr) found = each;
    };
    std::apply([&note](const auto&... each) { (note(each.domain()), ...); }, operands_);
    return found;
  }
  [[nodiscard]] bool reads_around(const std::byte* data) const {
    return std::apply([data](const auto&... each) { return (each.reads_around(data) || ...); }, operands_);
  }

  template <class... Rows>
  struct Row {
    Function function;
    std::tuple<Rows...> rows;

    value_type operator[](std::int64_t k) const {
      return std::apply([&](const auto&... each) -> value_type { return function(each[k]...); }, rows);
    }
  };
  [[nodiscard]] auto row(std::int64_t i, std::int64_t j) const {
    return std::apply(
        [&](const auto&... each) {
          return Row<decltype(each.row(i, j))...>{function_, {each.row(i, j)...}};
        },
        operands_);
  }

 private:
  static void check(Domain& first, const Domain& next) {
    if (first.layout != nullptr && next.layout != nullptr && !first.layout->matches(*next.layout)) {
      refuse_different(*first.layout, *next.layout);
    }
    if (first.layout == nullptr) first = next;
  }

  Function function_;
  std::tuple<Operands...> operands_;
};

// ---- Operands

template <class T>
requires std::is_arithmetic_v<T>
[[nodiscard]] Scalar<T> operand(T value) { return Scalar<T>(value); }
template <class T, std::size_t Dimensions>
[[nodiscard]] Read<T, Dimensions> operand(const Array<T, Dimensions>& array) {
  return Read<T, Dimensions>(array);
}
template <class T, std::size_t Dimensions>
[[nodiscard]] Keep<T, Dimensions> operand(Array<T, Dimensions>&& array) {
  return Keep<T, Dimensions>(std::move(array));
}
template <class E>
requires Expression<std::remove_cvref_t<E>>
[[nodiscard]] std::remove_cvref_t<E> operand(E&& expression) { return std::forward<E>(expression); }

template <class E>
using OperandOf = decltype(operand(std::declval<E>()));

/// An array, a scalar or an expression.
template <class E>
concept Operand = requires {
  typename OperandOf<E>;
};
/// One that has elements.
template <class E>
concept ArrayLike = Operand<E> &&(OperandOf<E>::kDimensions > 0);

/// `function` of the operands, element by element: for what there is no operator for.
template <class Function, Operand... Operands>
requires(ArrayLike<Operands> || ...) [[nodiscard]] auto map(Function function, Operands&&... operands) {
  return Map<Function, OperandOf<Operands>...>(std::move(function), operand(std::forward<Operands>(operands))...);
}

template <class... Operands>
concept SomeArrayLike = (Operand<Operands> && ...) && (ArrayLike<Operands> || ...);

// ---- Operators

template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator+(A&& a, B&& b) { return map(std::plus<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator-(A&& a, B&& b) { return map(std::minus<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator*(A&& a, B&& b) { return map(std::multiplies<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator/(A&& a, B&& b) { return map(std::divides<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator%(A&& a, B&& b) { return map(std::modulus<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator<(A&& a, B&& b) { return map(std::less<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator<=(A&& a, B&& b) { return map(std::less_equal<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator>(A&& a, B&& b) { return map(std::greater<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator>=(A&& a, B&& b) {
  return map(std::greater_equal<>(), std::forward<A>(a), std::forward<B>(b));
}
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator==(A&& a, B&& b) { return map(std::equal_to<>(), std::forward<A>(a), std::forward<B>(b)); }
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator!=(A&& a, B&& b) {
  return map(std::not_equal_to<>(), std::forward<A>(a), std::forward<B>(b));
}
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator&&(A&& a, B&& b) {
  return map(std::logical_and<>(), std::forward<A>(a), std::forward<B>(b));
}
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto operator||(A&& a, B&& b) { return map(std::logical_or<>(), std::forward<A>(a), std::forward<B>(b)); }
template <ArrayLike A>
[[nodiscard]] auto operator-(A&& a) {
  return map(std::negate<>(), std::forward<A>(a));
}
template <ArrayLike A>
[[nodiscard]] auto operator!(A&& a) {
  return map(std::logical_not<>(), std::forward<A>(a));
}

// ---- Functions

template <ArrayLike A>
[[nodiscard]] auto abs(A&& a) {
  return map([](auto x) { return std::abs(x); }, std::forward<A>(a));
}
template <ArrayLike A>
[[nodiscard]] auto sqrt(A&& a) {
  return map([](auto x) { return std::sqrt(x); }, std::forward<A>(a));
}
template <ArrayLike A>
[[nodiscard]] auto exp(A&& a) {
  return map([](auto x) { return std::exp(x); }, std::forward<A>(a));
}
template <ArrayLike A>
[[nodiscard]] auto log(A&& a) {
  return map([](auto x) { return std::log(x); }, std::forward<A>(a));
}
template <ArrayLike A>
[[nodiscard]] auto sin(A&& a) {
  return map([](auto x) { return std::sin(x); }, std::forward<A>(a));
}
template <ArrayLike A>
[[nodiscard]] auto cos(A&& a) {
  return map([](auto x) { return std::cos(x); }, std::forward<A>(a));
}
template <ArrayLike A>
[[nodiscard]] auto floor(A&& a) {
  return map([](auto x) { return std::floor(x); }, std::forward<A>(a));
}
template <ArrayLike A>
[[nodiscard]] auto ceil(A&& a) {
  return map([](auto x) { return std::ceil(x); }, std::forward<A>(a));
}
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto pow(A&& a, B&& b) {
  return map([](auto x, auto y) { return std::pow(x, y); }, std::forward<A>(a), std::forward<B>(b));
}
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto min(A&& a, B&& b) {
  return map([](auto x, auto y) { return y < x ? y : x; }, std::forward<A>(a), std::forward<B>(b));
}
template <class A, class B>
requires SomeArrayLike<A, B>
[[nodiscard]] auto max(A&& a, B&& b) {
  return map([](auto x, auto y) { return x < y ? y : x; }, std::forward<A>(a), std::forward<B>(b));
}
/// Converts each element to T.
template <class T, ArrayLike A>
[[nodiscard]] auto as(A&& a) {
  return map([](auto x) { return static_cast<T>(x); }, std::forward<A>(a));
}
/// Selects the element of `a` if `mask` holds, else that of `b`.
template <class Mask, class A, class B>
requires SomeArrayLike<Mask, A, B>
[[nodiscard]] auto where(Mask&& mask, A&& a, B&& b) {
  return map([](bool holds, auto x, auto y) { return holds ? x : y; }, std::forward<Mask>(mask), std::forward<A>(a),
             std::forward<B>(b));
}

}  // namespace farside::arrays
