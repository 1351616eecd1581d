// What moves elements between ranks, against what their indices say.
#include "farside/arrays/move.h"

#include <gtest/gtest.h>

#include "tests/arrays/stage.h"

namespace farside::test {
namespace {

using arrays::cshift;
using arrays::eoshift;
using arrays::permute;
using arrays::redistribute;

class MoveBetween : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MoveBetween, testing::Values(1, 2, 3, 5));

std::int64_t wrapped(std::int64_t index, std::int64_t extent) { return (index % extent + extent) % extent; }

template <std::size_t Dimensions>
void check_shifts(World& world, Dice& dice) {
  const Extents<Dimensions> extents = dice.extents<Dimensions>(9);
  const Array<double, Dimensions> a =
      filled(world, 1, extents, dice.distribution<Dimensions>(world.size(), dice.between(0, 1)));
  const auto axis = static_cast<std::size_t>(dice.between(0, Dimensions - 1));
  const std::int64_t shift = dice.between(-12, 12);
  const auto element = [](const Extents<Dimensions>& at) {
    return std::apply([](auto... indices) { return value(1, indices...); }, at);
  };
  expect_each(cshift(a, axis, shift), [&](auto... indices) {
    Extents<Dimensions> at = {indices...};
    at[axis] = wrapped(at[axis] + shift, extents[axis]);
    return element(at);
  });
  expect_each(eoshift(a, axis, shift, 0.5), [&](auto... indices) {
    Extents<Dimensions> at = {indices...};
    at[axis] += shift;
    return at[axis] < 0 || at[axis] >= extents[axis] ? 0.5 : element(at);
  });
}

// Shifts by less and by more than a block and than the array, along each axis, however the array is cut.
TEST_P(MoveBetween, ShiftsAlongAnyAxis) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(12); ++round) {
      check_shifts<1>(world, dice);
      check_shifts<2>(world, dice);
      check_shifts<3>(world, dice);
    }
  });
}

// The axes of an array change places, whatever its parts.
TEST_P(MoveBetween, PermutesAxes) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(12); ++round) {
      const Array<double, 2> a = filled(world, 1, dice.extents<2>(20), dice.distribution<2>(world.size()));
      expect_each(arrays::transpose(a), [](auto i, auto j) { return value(1, j, i); });
      const Array<double, 3> b = filled(world, 2, dice.extents<3>(7), dice.distribution<3>(world.size(), 1));
      expect_each(permute(b, {1, 2, 0}), [](auto i, auto j, auto k) { return value(2, k, i, j); });
      expect_each(permute(b, {2, 1, 0}), [](auto i, auto j, auto k) { return value(2, k, j, i); });
    }
  });
}

// The same elements, from any distribution to any other, and at every rank at once.
TEST_P(MoveBetween, DealsOutAnew) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(12); ++round) {
      const Extents<3> extents = dice.extents<3>(7);
      const Array<double, 3> a = filled(world, 1, extents, dice.distribution<3>(world.size(), 2));
      const auto b = redistribute(a, dice.distribution<3>(world.size(), 1));
      expect_each(b, [](auto i, auto j, auto k) { return value(1, i, j, k); });
      const std::vector<double> all = gather_all(b);
      const auto c = arrays::from_all<double, 3>(world, extents, all, dice.distribution<3>(world.size()));
      expect_each(c, [](auto i, auto j, auto k) { return value(1, i, j, k); });
    }
  });
}

// What does not fit into what a caller copies by itself goes in the background, and arrives as well.
TEST(Move, TakesLargeArrays) {
  in_both_worlds(2, [](World& world) {
    const Array<double, 2> a = filled<2>(world, 1, {300, 500});
    Array<double, 2> b = cshift(a, 0, 70);
    for (int round = 0; round < 4; ++round) b = cshift(cshift(b, 1, -3), 0, 1);
    expect_each(b, [](auto i, auto j) { return value(1, wrapped(i + 74, 300), wrapped(j - 12, 500)); });
    expect_each(arrays::transpose(a), [](auto i, auto j) { return value(1, j, i); });
  });
}

// What an array is given after it was sent is not what arrives, though the sender waits for no other rank.
TEST(Move, SendsWhatWasThereBefore) {
  in_both_worlds(3, [](World& world) {
    for (std::int64_t round = 0; round < 4; ++round) {
      Array<double, 1> a = filled<1>(world, round, {60'000});
      const Array<double, 1> b = cshift(a, 0, 30'000);
      a = -1;
      expect_each(b, [round](auto i) { return value(round, wrapped(i + 30'000, 60'000)); });
    }
  });
}

// One element is read at every rank; one that there is not is refused at every rank, and nothing is lost.
TEST(Move, ReadsOneElement) {
  in_both_worlds(3, [](World& world) {
    const Array<double, 2> a = filled<2>(world, 1, {5, 4});
    EXPECT_EQ((arrays::element<double, 2>(a, {4, 2})), value(1, 4, 2));
    EXPECT_THROW((void)(arrays::element<double, 2>(a, {5, 0})), UsageError);
    EXPECT_THROW((void)cshift(a, 2, 1), UsageError);
    EXPECT_EQ((arrays::element<double, 2>(a, {0, 3})), value(1, 0, 3));
  });
}

}  // namespace
}  // namespace farside::test
