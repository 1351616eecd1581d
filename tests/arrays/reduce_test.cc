// Reductions, against the same over all indices.
#include "farside/arrays/reduce.h"

#include <bit>

#include <gtest/gtest.h>

#include "tests/arrays/stage.h"

namespace farside::test {
namespace {

using namespace arrays;  // operators and functions

class ReduceBetween : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ReduceBetween, testing::Values(1, 2, 3, 5));

/// `value` of each index along `axis`, combined.
template <class T, class Combine, class Value>
T along(std::int64_t extent, T neutral, Combine combine, Value value_at) {
  T result = neutral;
  for (std::int64_t index = 0; index < extent; ++index) result = combine(result, value_at(index));
  return result;
}

template <std::size_t Dimensions>
void check_totals(World& world, Dice& dice) {
  const Extents<Dimensions> extents = dice.extents<Dimensions>(9);
  const auto a = filled(world, 1, extents, dice.distribution<Dimensions>(world.size()));
  double expected_sum = 0;
  double least = std::numeric_limits<double>::infinity();
  std::int64_t positive = 0;
  const std::vector<double> all_values = gather_all(a);
  for (const double each : all_values) {
    expected_sum += each;  // whole numbers: every order gives the same
    least = std::min(least, each);
    positive += each > 0 ? 1 : 0;
  }
  EXPECT_EQ(sum(a), expected_sum);
  EXPECT_EQ(minimum(a), least);
  EXPECT_EQ(maximum(-a), -least);
  EXPECT_EQ(count(a > 0), positive);
  EXPECT_EQ(all(a > 0), positive == std::ssize(all_values));
  EXPECT_EQ(any(a > 0), positive > 0);
  EXPECT_EQ(product(where(a > 0, 2.0, 1.0)), std::exp2(positive));
  EXPECT_EQ(dot(a, 2 * a), 2 * sum(a * a));
}

// Over all elements, of arrays of any shape, empty ones too.
TEST_P(ReduceBetween, ReduceToANumber) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(6); ++round) {
      check_totals<1>(world, dice);
      check_totals<2>(world, dice);
      check_totals<3>(world, dice);
    }
  });
}

// Along each axis, whether it is cut or not.
TEST_P(ReduceBetween, ReduceAlongAnAxis) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(10); ++round) {
      const Extents<2> flat = dice.extents<2>(12);
      const auto a = filled(world, 1, flat, dice.distribution<2>(world.size(), 1));
      expect_each(sum(a, 0),
                  [&](auto j) { return along(flat[0], 0.0, std::plus<>(), [j](auto i) { return value(1, i, j); }); });
      expect_each(maximum(2 * a, 1), [&](auto i) {
        return along(flat[1], Maximum<double>::kNeutral, Maximum<double>(), [i](auto j) { return 2 * value(1, i, j); });
      });
      const Extents<3> deep = dice.extents<3>(6);
      const auto b = filled(world, 2, deep, dice.distribution<3>(world.size()));
      expect_each(sum(b, 0), [&](auto j, auto k) {
        return along(deep[0], 0.0, std::plus<>(), [=](auto i) { return value(2, i, j, k); });
      });
      expect_each(count(b > 0, 1), [&](auto i, auto k) {
        return along(deep[1], std::int64_t{0}, std::plus<>(), [=](auto j) { return value(2, i, j, k) > 0 ? 1 : 0; });
      });
      expect_each(any(b > 900, 2), [&](auto i, auto j) {
        return along(deep[2], false, std::logical_or<>(), [=](auto k) { return value(2, i, j, k) > 900; });
      });
    }
  });
}

// Rounding is the same with one thread as with many, and with barriers as without: sums of fractions have equal bits.
TEST(Reduce, GivesTheSameBitsWhateverTheThreads) {
  Fleet fleet(3, [](Member& me) {
    FleetTeam team(me);
    std::vector<std::uint64_t> bits;
    for (const unsigned threads : {1U, kThreads}) {
      for (const bool strict : {false, true}) {
        WorldOptions options = small_world(strict);
        options.threads = threads;
        World world(team, options);
        auto a = filled<2>(world, 1, {400, 301});
        a /= 7.3;
        bits.push_back(std::bit_cast<std::uint64_t>(sum(a)));
        bits.push_back(std::bit_cast<std::uint64_t>(sum(sum(a, 0) / 3)));
        bits.push_back(std::bit_cast<std::uint64_t>(sum(sum(a, 1) / 3)));
      }
    }
    for (std::size_t at = 3; at < bits.size(); ++at) EXPECT_EQ(bits[at], bits[at % 3]) << at;
  });
  fleet.expect_success();
}

// What the ranks bring themselves.
TEST(Reduce, CombinesWhatRanksBring) {
  in_both_worlds(3, [](World& world) {
    std::vector<std::int64_t> mine(500, world.rank());
    mine[7] = 10;
    world.all_reduce(std::span(mine), std::plus<>());
    EXPECT_EQ(mine[7], 30);
    EXPECT_EQ(mine[499], 0 + 1 + 2);
    EXPECT_EQ(world.all_reduce(double(world.rank()), comm::Max()), 2.0);
  });
}

}  // namespace
}  // namespace farside::test
