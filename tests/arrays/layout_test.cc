// How arrays are dealt out: arithmetic, tried on all small shapes.
#include "farside/arrays/layout.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "farside/arrays/array.h"
#include "farside/base/error.h"

namespace farside::test {
namespace {

using arrays::even_parts;
using arrays::Index;
using arrays::Layout;
using arrays::make_layout;

// Each element is in the block of one rank, the one that is its owner; blocks differ by one on each axis at most, and
// fit into what there is memory for.
TEST(Layout, GivesEachElementToOneRank) {
  for (const Index& parts : {Index{1, 1, 1}, Index{1, 1, 5}, Index{1, 3, 2}, Index{2, 1, 3}, Index{2, 2, 2}}) {
    for (std::int64_t x = 0; x <= 4; ++x) {
      for (std::int64_t y = 0; y <= 7; ++y) {
        for (std::int64_t z = 0; z <= 7; ++z) {
          const auto ranks = static_cast<std::uint32_t>(parts[0] * parts[1] * parts[2]);
          const Layout layout({x, y, z}, parts, {0, 1, 2}, ranks);
          std::uint64_t elements = 0;
          for (team::Rank rank = 0; rank < ranks; ++rank) {
            const arrays::Box own = layout.own(rank);
            elements += own.size();
            ASSERT_LE(layout.stored(rank).size(), layout.capacity());
            for (std::size_t axis = 0; axis < arrays::kAxes; ++axis) {
              ASSERT_GE(own.extent(axis), layout.extents()[axis] / parts[axis]);
              ASSERT_LE(own.extent(axis), (layout.extents()[axis] + parts[axis] - 1) / parts[axis]);
            }
            for (std::int64_t i = own.first[0]; i < own.last[0]; ++i) {
              for (std::int64_t j = own.first[1]; j < own.last[1]; ++j) {
                for (std::int64_t k = own.first[2]; k < own.last[2]; ++k) ASSERT_EQ(layout.owner({i, j, k}), rank);
              }
            }
          }
          ASSERT_EQ(elements, layout.all().size()) << layout.text();
        }
      }
    }
  }
}

// Ranks are spread so that blocks are as near to cubes as their number allows.
TEST(Layout, SpreadsRanksEvenly) {
  using Parts = std::vector<std::uint32_t>;
  EXPECT_EQ(even_parts(1, 3), Parts({1, 1, 1}));
  EXPECT_EQ(even_parts(4, 2), Parts({2, 2}));
  EXPECT_EQ(even_parts(12, 2), Parts({4, 3}));
  EXPECT_EQ(even_parts(7, 2), Parts({7, 1}));
  EXPECT_EQ(even_parts(8, 3), Parts({2, 2, 2}));
  EXPECT_EQ(even_parts(24, 3), Parts({4, 3, 2}));
}

// Parts that are not as many as ranks leave ranks or blocks over.
TEST(Layout, RefusesOtherNumbersOfParts) {
  EXPECT_THROW(Layout({1, 4, 4}, {1, 2, 2}, {}, 3), UsageError);
  EXPECT_THROW(Layout({1, 4, 4}, {1, -2, -2}, {}, 4), UsageError);
  // Products of 2^64 and of 2^64 + 4, of which 64 bits are 0 and 4.
  constexpr std::int64_t kHuge = std::int64_t{1} << 32U;
  EXPECT_THROW(Layout({1, 4, 4}, {1, kHuge, kHuge}, {}, 0), UsageError);
  EXPECT_THROW(Layout({1, 4, 4}, {1, 4, (std::int64_t{1} << 62U) + 1}, {}, 4), UsageError);
}

// Otherwise too little memory would be taken for the elements.
TEST(Layout, RefusesMoreElementsThanCanBeCounted) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 32U;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const Index one = {1, 1, 1};
  for (const Index& extents : {Index{1, kHuge, kHuge}, Index{kHuge, kHuge, 2}, Index{1, 1, kMax}, Index{0, 1, kMax},
                               Index{1, 1, -1}, Index{1, 1, kMin}, Index{1, kMax, kMax}}) {
    EXPECT_THROW(Layout(extents, one, {}, 1), UsageError);
    EXPECT_THROW((void)make_layout(1, extents, Index{}, Index{}), UsageError);
  }
  EXPECT_THROW(Layout({1, 1, 8}, one, {0, 0, kMax}, 1), UsageError);
  EXPECT_THROW(Layout({1, 1, 8}, one, {0, kHuge, kHuge}, 1), UsageError);
  EXPECT_THROW(Layout({1, 1, 8}, one, {0, 0, -1}, 1), UsageError);
  EXPECT_THROW((void)make_layout(4, Index{4, 4, 4}, Index{1, kHuge, kHuge}, Index{}), UsageError);
  EXPECT_THROW((void)make_layout(4, Index{4, 4, 4}, Index{0, kMax, kMax}, Index{}), UsageError);
  EXPECT_EQ(Layout({1, 1 << 20, 1 << 27}, one, {}, 1).capacity(), std::uint64_t{1} << 47U);
  EXPECT_EQ(Layout({0, 1 << 20, 1 << 20}, one, {}, 1).capacity(), 0U);
}

}  // namespace
}  // namespace farside::test
