// Gather and scatter, against the same on single elements.
#include "farside/arrays/gather.h"

#include <gtest/gtest.h>

#include "farside/arrays/move.h"

#include "tests/arrays/stage.h"

namespace farside::test {
namespace {

using arrays::gather;
using arrays::gather_all;
using arrays::Indices;
using arrays::scatter;

class GatherBetween : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GatherBetween, testing::Values(1, 2, 4));

/// Indices into an array of `elements`, the same at all ranks; most are named more than once.
Array<std::int64_t, 1> some_indices(World& world, Dice& dice, std::int64_t count, std::int64_t elements) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  for (auto& each : all) each = dice.between(0, elements - 1);
  return arrays::from_all<std::int64_t, 1>(world, {count}, all);
}

// Of arrays of any shape, with ghost cells or without, by indices that repeat and that some ranks have none of.
TEST_P(GatherBetween, TakesElementsByTheirIndices) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(8); ++round) {
      const Extents<2> extents = {dice.between(1, 9), dice.between(1, 9)};
      const auto a = filled(world, 1, extents, dice.distribution<2>(world.size(), 1));
      const auto index = some_indices(world, dice, dice.between(0, 60), extents[0] * extents[1]);
      const std::vector<std::int64_t> numbers = gather_all(index);
      expect_each(gather(a, index), [&](auto k) {
        const std::int64_t number = numbers[static_cast<std::size_t>(k)];
        return value(1, number / extents[1], number % extents[1]);
      });
    }
  });
}

// One value after the other: the last one stays where an index repeats, or each is combined with what is there.
TEST_P(GatherBetween, PutsElementsInTheOrderOfTheirIndices) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(8); ++round) {
      const std::int64_t elements = dice.between(1, 30);
      const std::int64_t count = dice.between(0, 60);
      const auto index = some_indices(world, dice, count, elements);
      const auto values = filled<1>(world, 2, {count});
      auto last = filled<1>(world, 1, {elements});
      auto combined = last;
      scatter(last, index, values);
      const auto combine = [](double before, double each) { return before / 2 + each; };  // the order matters
      scatter(combined, index, values, combine);

      std::vector<double> expected_last = gather_all(filled<1>(world, 1, {elements}));
      std::vector<double> expected_combined = expected_last;
      const std::vector<std::int64_t> numbers = gather_all(index);
      for (std::size_t k = 0; k < numbers.size(); ++k) {
        const auto at = static_cast<std::size_t>(numbers[k]);
        expected_last[at] = value(2, static_cast<std::int64_t>(k));
        expected_combined[at] = combine(expected_combined[at], value(2, static_cast<std::int64_t>(k)));
      }
      expect_each(last, [&](auto i) { return expected_last[static_cast<std::size_t>(i)]; });
      expect_each(combined, [&](auto i) { return expected_combined[static_cast<std::size_t>(i)]; });
    }
  });
}

// An index that does not exist is named at every rank, whichever rank had it; then all goes on.
TEST(Gather, NamesAnIndexThatThereIsNot) {
  in_both_worlds(3, [](World& world) {
    const auto a = filled<1>(world, 1, {9});
    Array<std::int64_t, 1> index(world, {30});
    index = coordinate(index, 0) % 9;
    Array<std::int64_t, 1> wrong = where(coordinate(index, 0) == 17, 9, index);
    try {
      (void)gather(a, wrong);
      ADD_FAILURE() << "it was taken";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.failure().on, "9");
      EXPECT_NE(error.failure().remedy.find("place 17"), std::string::npos) << error.what();
    }
    expect_each(gather(a, index), [](auto k) { return value(1, k % 9); });
  });
}

// What was found out once serves again and again; lists may have any length at each rank.
TEST(Gather, RemembersWhoHasWhat) {
  in_both_worlds(3, [](World& world) {
    auto a = filled<1>(world, 1, {50'000});
    std::vector<std::int64_t> mine;
    for (std::int64_t number = world.rank(); number < std::int64_t{25'000} * world.rank(); number += 2)
      mine.push_back(49'999 - number);
    const Indices indices(world, a.layout(), mine);
    std::vector<double> values(mine.size());
    for (int round = 0; round < 3; ++round) {
      indices.gather(a, std::span(values));
      for (std::size_t k = 0; k < mine.size(); ++k) ASSERT_EQ(values[k], value(1, mine[k]) + round);
      a += 1;
    }
    const Array<double, 1> other(world, {50'001});
    EXPECT_THROW(indices.gather(other, std::span(values)), UsageError);
    values.push_back(0);
    EXPECT_THROW(indices.gather(a, std::span(values)), UsageError);
  });
}

}  // namespace
}  // namespace farside::test
