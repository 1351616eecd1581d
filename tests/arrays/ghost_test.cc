// Ghost cells: what a block has around it is what the neighbours have there.
#include "farside/arrays/ghost.h"

#include <gtest/gtest.h>

#include "farside/arrays/reduce.h"

#include "tests/arrays/stage.h"

namespace farside::test {
namespace {

using namespace arrays;  // operators and functions

class GhostBetween : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GhostBetween, testing::Values(1, 2, 3, 5));

std::int64_t wrapped(std::int64_t index, std::int64_t extent) { return (index % extent + extent) % extent; }

/// Every cell in this rank's memory, against its value; the ones beyond fixed edges are -0.5.
template <std::size_t Dimensions>
void check_cells(World& world, Dice& dice, Edges edges) {
  const Extents<Dimensions> extents = dice.extents<Dimensions>(7);
  auto a = filled(world, 1, extents, dice.distribution<Dimensions>(world.size(), 2));
  Box cells = a.layout().stored(world.rank());
  if (a.own().empty()) cells = {};
  const Index first = a.own().first;
  for (const Box& side : around(cells, cells.empty() ? cells : a.own())) {
    for (std::int64_t i = side.first[0]; i < side.last[0]; ++i) {
      for (std::int64_t j = side.first[1]; j < side.last[1]; ++j) {
        for (std::int64_t k = side.first[2]; k < side.last[2]; ++k)
          a.row(i - first[0], j - first[1])[k - first[2]] = -0.5;
      }
    }
  }
  exchange(a, edges);
  for (std::int64_t i = cells.first[0]; i < cells.last[0]; ++i) {
    for (std::int64_t j = cells.first[1]; j < cells.last[1]; ++j) {
      for (std::int64_t k = cells.first[2]; k < cells.last[2]; ++k) {
        Index at = {i, j, k};
        bool beyond = false;
        for (std::size_t axis = 0; axis < kAxes; ++axis) {
          const std::int64_t extent = a.layout().extents()[axis];
          beyond = beyond || at[axis] < 0 || at[axis] >= extent;
          if (edges == Edges::periodic) at[axis] = wrapped(at[axis], extent);
        }
        const double there = std::apply([](auto... indices) { return value(1, indices...); }, outer<Dimensions>(at));
        const double expected = beyond && edges == Edges::fixed ? -0.5 : there;
        ASSERT_EQ(a.row(i - first[0], j - first[1])[k - first[2]], expected)
            << i << ", " << j << ", " << k << " of " << a.layout().text();
      }
    }
  }
}

// Of any width, corners too; at the edges what the program put there, or what is at the other end.
TEST_P(GhostBetween, HaveTheirNeighboursElementsAroundTheirs) {
  in_both_worlds(GetParam(), [](World& world) {
    Dice dice(GetParam());
    for (std::uint64_t round = 0; round < reduced(6); ++round) {
      for (const Edges edges : {Edges::fixed, Edges::periodic}) {
        check_cells<1>(world, dice, edges);
        check_cells<2>(world, dice, edges);
        check_cells<3>(world, dice, edges);
      }
    }
  });
}

// Jacobi's method with the exchange under way while the inner part is computed, against shifted copies of the whole.
TEST_P(GhostBetween, ComputeWhileGhostCellsAreOnTheirWay) {
  in_both_worlds(GetParam(), [](World& world) {
    auto u = filled<2>(world, 1, {40, 37}, {.halo = {1, 1}});
    auto next = u;
    Array<double, 2> reference = u;
    for (std::uint64_t round = 0; round < reduced(12); ++round) {
      const auto mean =
          0.25 * (neighbour(u, {-1, 0}) + neighbour(u, {1, 0}) + neighbour(u, {0, -1}) + neighbour(u, {0, 1}));
      assign_overlapped(next, mean, u);
      std::swap(u, next);
      reference = 0.25 * (eoshift(reference, 0, -1) + eoshift(reference, 0, 1) + eoshift(reference, 1, -1) +
                          eoshift(reference, 1, 1));
    }
    EXPECT_TRUE(all(u == reference));
  });
}

// A stencil cannot be computed in place, nor beyond the halo.
TEST(Ghost, RefusesWhatCannotBeRead) {
  in_both_worlds(1, [](World& world) {
    Array<double, 1> u(world, {9}, {.halo = {1}});
    EXPECT_THROW(u = neighbour(u, {1}) + u, UsageError);
    EXPECT_THROW((void)neighbour(u, {2}), UsageError);
  });
}

}  // namespace
}  // namespace farside::test
