// Elementwise expressions, against the same arithmetic on single elements.
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "farside/arrays/expression.h"
#include "farside/arrays/move.h"

#include "tests/arrays/stage.h"

namespace farside::test {
namespace {

using namespace arrays;  // operators and functions

// Each operator and function, with arrays and scalars on either side.
TEST(Elementwise, ComputesLikeSingleElements) {
  in_both_worlds(2, [](World& world) {
    Dice dice(1);
    for (std::uint64_t round = 0; round < reduced(10); ++round) {
      const Extents<2> extents = dice.extents<2>(70);
      const auto a = filled(world, 1, extents);
      const auto b = filled(world, 2, extents, {.halo = {1, 2}});
      const auto x = [](auto i, auto j) { return value(1, i, j); };
      const auto y = [](auto i, auto j) { return value(2, i, j); };
      expect_each(Array<double, 2>(0.25 * (a + b) - a / 7.0),
                  [&](auto i, auto j) { return 0.25 * (x(i, j) + y(i, j)) - x(i, j) / 7.0; });
      expect_each(Array<double, 2>(where(a < b, sqrt(abs(a)), -b)),
                  [&](auto i, auto j) { return x(i, j) < y(i, j) ? std::sqrt(std::abs(x(i, j))) : -y(i, j); });
      expect_each(Array<double, 2>(min(a, 3) + max(b, a) + pow(a, 2)), [&](auto i, auto j) {
        return std::min(x(i, j), 3.0) + std::max(y(i, j), x(i, j)) + std::pow(x(i, j), 2);
      });
      expect_each(Array<bool, 2>((a >= b && !(a == b)) || a != b), [&](auto i, auto j) { return x(i, j) != y(i, j); });
      expect_each(Array<std::int64_t, 2>(as<std::int64_t>(a) % 5),
                  [&](auto i, auto j) { return static_cast<std::int64_t>(x(i, j)) % 5; });
      expect_each(Array<double, 2>(map([](double p, double q) { return p * q + 1; }, a, b)),
                  [&](auto i, auto j) { return x(i, j) * y(i, j) + 1; });
      expect_each(Array<std::int64_t, 2>(10 * coordinate(a, 0) + coordinate(a, 1)),
                  [&](auto i, auto j) { return 10 * i + j; });
    }
  });
}

// An array in its own expression is what it was before; arrays that an operation just made are operands like others.
TEST(Elementwise, AssignsInPlace) {
  in_both_worlds(3, [](World& world) {
    auto a = filled<1>(world, 1, {5000});
    a = 2 * a + cshift(a, 0, 1);
    a += 1;
    a *= a;
    expect_each(a, [](auto i) {
      const double before = 2 * value(1, i) + value(1, (i + 1) % 5000) + 1;
      return before * before;
    });
    Array<double, 1> b = a;
    b = 4;
    a -= b;
    a = std::as_const(a);
    expect_each(b, [](auto) { return 4.0; });
    expect_each(Array<double, 1>(a + b), [](auto i) {
      const double before = 2 * value(1, i) + value(1, (i + 1) % 5000) + 1;
      return before * before - 4 + 4;
    });
  });
}

// Arrays of three dimensions, and rows that are longer than what a thread does at once.
TEST(Elementwise, IsOfAnyShape) {
  in_both_worlds(2, [](World& world) {
    const auto a = filled<3>(world, 1, {3, 50, 70});
    expect_each(Array<double, 3>(a + 1), [](auto i, auto j, auto k) { return value(1, i, j, k) + 1; });
    const auto b = filled<1>(world, 2, {100'003});
    expect_each(Array<double, 1>(b * b), [](auto i) { return value(2, i) * value(2, i); });
    const auto none = filled<2>(world, 3, {0, 7});
    expect_each(Array<double, 2>(none + none), [](auto, auto) { return 0.0; });
  });
}

// Other shapes, or the same in other parts, are refused before anything is computed.
TEST(Elementwise, RefusesOtherShapes) {
  in_both_worlds(2, [](World& world) {
    Array<double, 2> a(world, {4, 6});
    const Array<double, 2> b(world, {6, 4});
    const Array<double, 2> c(world, {4, 6}, {.parts = {1, 2}});
    EXPECT_THROW((void)(a + b), UsageError);
    EXPECT_THROW((void)(a + c), UsageError);
    EXPECT_THROW(a = 2 * b, UsageError);
    EXPECT_THROW((Array<double, 2>(world, {4, 6}, {.parts = {2, 2}})), UsageError);
    EXPECT_THROW((Array<double, 2>(world, {-1, 6})), UsageError);
    EXPECT_THROW((Array<double, 2>(world, {std::int64_t{1} << 32U, std::int64_t{1} << 32U})), UsageError);
    EXPECT_THROW((void)a.extent(2), UsageError);
    EXPECT_THROW((void)coordinate(a, 2), UsageError);
    EXPECT_THROW((void)neighbour(a, {std::numeric_limits<std::int64_t>::min(), 0}), UsageError);
    expect_each(eoshift(a, 0, std::numeric_limits<std::int64_t>::min(), 3.0), [](auto...) { return 3.0; });
    a = b;  // a copy, with another shape
    EXPECT_EQ(a.extents(), b.extents());
  });
}

// A rank's elements as the program's own code sees them: whole, and by index.
TEST(Elementwise, GivesItsElementsAway) {
  in_both_worlds(2, [](World& world) {
    auto a = filled<2>(world, 1, {8, 6}, {.parts = {1, 2}});
    EXPECT_EQ(a.local().size(), 8u * 3);
    for (double& each : a.local()) each += 1;
    const auto view = a.view();
    view(7, 2) = 0.5;
    const std::int64_t last = a.last()[1] - 1;
    expect_each(a, [&](auto i, auto j) { return i == 7 && j == last ? 0.5 : value(1, i, j) + 1; });
    Array<double, 2> with_ghosts(world, {8, 6}, {.halo = {1, 1}});
    EXPECT_THROW((void)with_ghosts.local(), UsageError);
    with_ghosts.view()(-1, 0) = 3;
    const Array<double, 2> copy = with_ghosts;
    EXPECT_EQ(copy.view()(-1, 0), 3);
  });
}

}  // namespace
}  // namespace farside::test
