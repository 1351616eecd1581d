// flow.h — what bt, sp and lu have in common: five quantities at each point of a cube, with a flow that carries and
// spreads them, and a step that begins with what each will change by.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "bench/far/kernels/memory.h"
#include "bench/far/kernels/numbers.h"

namespace farside::bench {

using Five = std::array<double, 5>;
using Matrix = std::array<Five, 5>;

inline constexpr double kStep = 0.1;                          ///< of time
inline constexpr double kSpread = 0.4;                        ///< viscosity
inline constexpr double kCoupling = 0.05;                     ///< of a quantity with the others
inline constexpr std::size_t kPointBytes = sizeof(Five) * 3;  ///< of what every Flow has at each point

/// Of each point: the quantities, what they change by, and what drives them.
class Flow {
 public:
  Flow(Memory& memory, std::size_t n)
      : u{take<Five>(memory, n * n * n, Use::updated), n},
        change{take<Five>(memory, n * n * n, Use::updated), n},
        forcing{take<Five>(memory, n * n * n, Use::read_mostly), n} {}

  [[nodiscard]] std::size_t n() const { return u.n(); }

  void prepare() const {
    for (std::size_t place = 0; place < u.cells().size(); ++place) {
      for (std::size_t m = 0; m < 5; ++m) {
        u[place][m] = 1 + 0.1 * noise(place * 5 + m);
        forcing[place][m] = 0.1 * noise(~(place * 5 + m));
      }
    }
  }

  /// Calls `then(i, j, k)` for all points that are not on the surface, in the order of memory.
  template <class Then>
  void for_inner(Then&& then) const {
    for (std::size_t k = 1; k + 1 < n(); ++k) {
      for (std::size_t j = 1; j + 1 < n(); ++j) {
        for (std::size_t i = 1; i + 1 < n(); ++i) then(i, j, k);
      }
    }
  }

  /// `speed(i, j, k)` is how fast the flow is there in the three directions.
  template <class Speed>
  void begin_step(Speed&& speed) const {
    for_inner([&](std::size_t i, std::size_t j, std::size_t k) {
      const std::array<double, 3> v = speed(i, j, k);
      const Five& here = u(i, j, k);
      const std::array<const Five*, 3> before{&u(i - 1, j, k), &u(i, j - 1, k), &u(i, j, k - 1)};
      const std::array<const Five*, 3> after{&u(i + 1, j, k), &u(i, j + 1, k), &u(i, j, k + 1)};
      Five& result = change(i, j, k);
      for (std::size_t m = 0; m < 5; ++m) {
        double sum = forcing(i, j, k)[m];
        for (std::size_t d = 0; d < 3; ++d) {
          const double b = (*before[d])[m];
          const double a = (*after[d])[m];
          sum += kSpread * (b - 2 * here[m] + a) - v[d] * (a - b) / 2;
        }
        result[m] = kStep * sum;
      }
    });
  }

  void end_step() const {
    for_inner([&](std::size_t i, std::size_t j, std::size_t k) {
      for (std::size_t m = 0; m < 5; ++m) u(i, j, k)[m] += change(i, j, k)[m];
    });
  }

  [[nodiscard]] std::uint64_t checked() const {
    double most = 0;
    for (const Five& point : u.cells()) {
      for (const double value : point) most = std::max(most, std::isfinite(value) ? std::abs(value) : HUGE_VAL);
    }
    expect_below(most, 10, "the largest quantity");
    const auto values = [](const Cube<Five>& cube) {
      return std::span<const double>(cube.cells().data()->data(), cube.cells().size() * 5);
    };
    return fingerprint<double>(values(u)) ^ fingerprint<double>(values(change));
  }

  // NOLINTBEGIN(misc-non-private-member-variables-in-classes): the kernels are about nothing else
  Cube<Five> u;
  Cube<Five> change;
  Cube<Five> forcing;
  // NOLINTEND(misc-non-private-member-variables-in-classes)
};

/// How what happens to one quantity depends on the others, where they are `u` and the flow has this speed.
inline Matrix coupling(const Five& u, double speed) {
  Matrix matrix;
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t column = 0; column < 5; ++column) {
      matrix[row][column] = kCoupling * u[row] * u[column] + (row == column ? speed : 0);
    }
  }
  return matrix;
}

inline Five product(const Matrix& matrix, const Five& x) {
  Five result{};
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t column = 0; column < 5; ++column) result[row] += matrix[row][column] * x[column];
  }
  return result;
}

/// Solves matrix * x = right for each of the right sides, in their place. By elimination without pivoting: what comes
/// here is diagonally dominant.
template <std::size_t kSides>
void solve(Matrix& matrix, std::array<Five, kSides>& sides) {
  for (std::size_t pivot = 0; pivot < 5; ++pivot) {
    const double inverse = 1 / matrix[pivot][pivot];
    for (std::size_t column = pivot + 1; column < 5; ++column) matrix[pivot][column] *= inverse;
    for (Five& side : sides) side[pivot] *= inverse;
    for (std::size_t row = 0; row < 5; ++row) {
      if (row == pivot) continue;
      const double factor = matrix[row][pivot];
      for (std::size_t column = pivot + 1; column < 5; ++column) matrix[row][column] -= factor * matrix[pivot][column];
      for (Five& side : sides) side[row] -= factor * side[pivot];
    }
  }
}

}  // namespace farside::bench
