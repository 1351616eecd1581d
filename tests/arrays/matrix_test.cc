// Products of matrices and vectors, against sums over indices.
#include "farside/arrays/matrix.h"

#include <gtest/gtest.h>

#include "tests/arrays/stage.h"

namespace farside::test {
namespace {

using namespace arrays;  // operators and functions

class MatrixBetween : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MatrixBetween, testing::Values(1, 2, 4));

// Of any shapes, cut in any way; whole numbers, so that every order gives the same.
TEST_P(MatrixBetween, AreMultiplied) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(4); ++round) {
      const std::int64_t rows = dice.between(0, 20);
      const std::int64_t depth = round == 0 ? 300 : dice.between(0, 20);  // more than one panel
      const std::int64_t columns = dice.between(0, 70);
      const auto a = filled<2>(world, 1, {rows, depth}, dice.distribution<2>(world.size()));
      const auto b = filled<2>(world, 2, {depth, columns}, dice.distribution<2>(world.size(), 1));
      const auto x = filled<1>(world, 3, {depth});
      expect_each(multiply(a, b), [depth](auto i, auto j) {
        double sum = 0;
        for (std::int64_t along = 0; along < depth; ++along) sum += value(1, i, along) * value(2, along, j);
        return sum;
      });
      expect_each(multiply(a, x), [depth](auto i) {
        double sum = 0;
        for (std::int64_t along = 0; along < depth; ++along) sum += value(1, i, along) * value(3, along);
        return sum;
      });
    }
  });
}

// A vector stands in an expression for a matrix of equal rows, or columns.
TEST_P(MatrixBetween, HaveVectorsAddedToThem) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    const auto a = filled<2>(world, 1, {13, 40}, dice.distribution<2>(world.size()));
    const auto x = filled<1>(world, 2, {40});
    const auto y = filled<1>(world, 3, {13});
    const Array<double, 2> added = a + as_row(x, a) - 2 * as_column(y, a);
    expect_each(added, [](auto i, auto j) { return value(1, i, j) + value(2, j) - 2 * value(3, i); });
  });
}

// Shapes that do not fit are refused.
TEST(Matrix, RefusesOtherShapes) {
  in_both_worlds(1, [](World& world) {
    const Array<double, 2> a(world, {3, 4});
    const Array<double, 1> x(world, {3});
    EXPECT_THROW((void)multiply(a, a), UsageError);
    EXPECT_THROW((void)multiply(a, x), UsageError);
  });
}

}  // namespace
}  // namespace farside::test
