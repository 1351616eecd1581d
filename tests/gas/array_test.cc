// What a global array promises while its pages stay: elements by index, wherever they are, between real processes.
#include <cstdint>
#include <numeric>
#include <ostream>
#include <vector>

#include "farside/gas/patch.h"

#include "tests/gas/place.h"

namespace farside::test {
namespace {

using gas::GlobalArray;
using gas::Patch;

constexpr std::uint64_t kElements = 203;  // of 8 to a page: the last page is not full

std::uint64_t value_of(std::uint64_t index) { return index * 1'000'003 + 17; }

// Each rank writes what is congruent to it, from wherever.
void fill_together(Seat& seat, GlobalArray<std::uint64_t>& array) {
  for (std::uint64_t i = array.rank(); i < array.size(); i += seat.team.size()) array[i] = value_of(i);
  meet(seat);
}

struct NamedDistribution {
  const char* name;
  gas::Distribution distribution;
};
void PrintTo(const NamedDistribution& tested, std::ostream* out) { *out << tested.name; }

class Distributions : public testing::TestWithParam<NamedDistribution> {};
INSTANTIATE_TEST_SUITE_P(All, Distributions,
                         testing::Values(NamedDistribution{"Cyclic", gas::cyclic()},
                                         NamedDistribution{"Blocked", gas::blocked()},
                                         NamedDistribution{"BlockCyclic", gas::block_cyclic(3)},
                                         NamedDistribution{"AllAtOne", [](auto, auto, auto) { return team::Rank{1}; }}),
                         [](const auto& tested) { return tested.param.name; });

// Elements are found by index whichever rank has them, and ranges cross pages and owners.
TEST_P(Distributions, GiveEveryRankEveryElement) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    GlobalArray<std::uint64_t> array(seat.comm, kElements, small_pages(GetParam().distribution));
    fill_together(seat, array);
    std::vector<std::uint64_t> all(kElements);
    ASSERT_TRUE(array.get(0, all).done());
    for (std::uint64_t i = 0; i < kElements; ++i) EXPECT_EQ(all[i], value_of(i)) << i;

    const auto [status, located] = array.locality({5, 20});
    ASSERT_TRUE(status.done());
    ASSERT_EQ(located.size(), 4U);  // 5..7, 8..15, 16..23, 24
    const std::uint64_t pages = (kElements + 7) / 8;
    for (const gas::LocatedRange& piece : located) {
      EXPECT_EQ(piece.owner, GetParam().distribution(piece.range.first / 8, pages, 3));
    }
    EXPECT_EQ(located[0].range.first, 5U);
    EXPECT_EQ(located[0].range.count, 3U);
    meet(seat);
  });
  fleet.expect_success();
}

// Elements that do not fill pages are got piece by piece, and there may be none at all.
TEST(GlobalArray, GetsRangesOfWhateverLength) {
  struct Point {
    std::uint64_t x, y, z;
  };
  Fleet fleet(2, [](Member& me) {
    constexpr std::uint64_t kPoints = 10;
    Seat seat(me);
    GlobalArray<Point> array(seat.comm, kPoints, small_pages(gas::blocked()));
    EXPECT_EQ(array.elements_per_page(), 2U);
    std::vector<Point> points(kPoints);
    for (std::uint64_t i = 0; i < kPoints; ++i) points[i] = {i, value_of(i), ~i};
    EXPECT_TRUE(array.rank() != 0 || array.put(0, std::span<const Point>(points)).done());
    meet(seat);
    for (std::uint64_t first = 0; first <= kPoints; ++first) {
      std::vector<Point> found(kPoints - first);
      EXPECT_TRUE(array.get(first, found).done());
      for (std::uint64_t i = first; i < kPoints; ++i) {
        EXPECT_EQ(found[i - first].x, i);
        EXPECT_EQ(found[i - first].y, value_of(i));
        EXPECT_EQ(found[i - first].z, ~i);
      }
    }
    meet(seat);
  });
  fleet.expect_success();
}

// The owner computes on its pages where they are, and the others find what it stored.
TEST(GlobalArray, SeesItsPagesInPlaceWithoutCopying) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    GlobalArray<std::uint64_t> array(seat.comm, kElements, small_pages());
    std::uint64_t seen = 0;
    array.for_each_here([&](std::uint64_t first, std::span<std::uint64_t> values) {
      EXPECT_EQ(first / 8 % 2, me.index());
      for (std::uint64_t i = 0; i < values.size(); ++i) values[i] = value_of(first + i);
      seen += values.size();
    });
    EXPECT_EQ(seen, me.index() == 0 ? 104U : 99U);
    meet(seat);
    std::uint64_t index = 0;
    for (const std::uint64_t value : array) EXPECT_EQ(value, value_of(index++));
    EXPECT_EQ(index, kElements);
    EXPECT_FALSE(array.pin(me.index() == 0 ? 8 : 0).has_value());
    meet(seat);
  });
  fleet.expect_success();
}

TEST(GlobalArray, GathersAndScattersByIndex) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    GlobalArray<std::uint64_t> array(seat.comm, kElements, small_pages());
    fill_together(seat, array);
    const std::vector<std::uint64_t> indices = {202, 0, 17, 17, 99, 3};
    std::vector<std::uint64_t> found(indices.size());
    ASSERT_TRUE(array.gather(indices, found).done());
    for (std::size_t i = 0; i < indices.size(); ++i) EXPECT_EQ(found[i], value_of(indices[i]));
    meet(seat);
    if (me.index() == 0) {
      const std::vector<std::uint64_t> to = {1, 101, 201};
      ASSERT_TRUE(array.scatter(to, std::vector<std::uint64_t>{7, 8, 9}).done());
    }
    meet(seat);
    EXPECT_EQ(array[101], 8U);
    EXPECT_EQ(array[201], 9U);
    EXPECT_EQ(array[202], value_of(202));
    meet(seat);
  });
  fleet.expect_success();
}

TEST(GlobalArray, HasPatchesOfSeveralDimensions) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    const gas::Shape<3> shape = {4, 5, 6};
    GlobalArray<std::uint64_t> array(seat.comm, 120, small_pages());
    fill_together(seat, array);
    const Patch<3> patch{{1, 2, 3}, {2, 3, 2}};
    std::vector<std::uint64_t> values(patch.size());
    ASSERT_TRUE(gas::get_patch(array, shape, patch, std::span(values)).done());
    std::size_t at = 0;
    for (std::uint64_t i = 1; i < 3; ++i) {
      for (std::uint64_t j = 2; j < 5; ++j) {
        for (std::uint64_t k = 3; k < 5; ++k) EXPECT_EQ(values[at++], value_of((i * 5 + j) * 6 + k));
      }
    }
    meet(seat);
    if (me.index() == 1) {
      std::iota(values.begin(), values.end(), 1000);
      ASSERT_TRUE(gas::put_patch(array, shape, patch, std::span<const std::uint64_t>(values)).done());
    }
    meet(seat);
    EXPECT_EQ(array[(1 * 5 + 2) * 6 + 3], 1000U);
    EXPECT_EQ(array[(2 * 5 + 4) * 6 + 4], 1011U);
    EXPECT_EQ(array[(2 * 5 + 4) * 6 + 5], value_of((2 * 5 + 4) * 6 + 5));
    EXPECT_THROW((void)gas::get_patch(array, shape, Patch<3>{{3, 0, 0}, {2, 1, 1}}, std::span(values)), UsageError);
    meet(seat);
  });
  fleet.expect_success();
}

TEST(GlobalArray, FillsCopiesAndReduces) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    GlobalArray<std::uint64_t> a(seat.comm, kElements, small_pages());
    GlobalArray<std::uint64_t> b(seat.comm, kElements, small_pages(gas::blocked()));
    if (me.index() == 0) {
      ASSERT_TRUE(a.fill(3, 150, 2).done());
      ASSERT_TRUE(b.copy(10, a, {0, 100}).done());
    }
    meet(seat);
    const auto sum = b.reduce({0, kElements}, std::uint64_t{5}, std::plus<>());
    ASSERT_TRUE(sum.status.done());
    EXPECT_EQ(sum.value, 5U + 97 * 2);
    meet(seat);
  });
  fleet.expect_success();
}

TEST(GlobalArray, CountsWithAtomicsFromAllRanks) {
  Fleet fleet(3, [](Member& me) {
    Seat seat(me);
    GlobalArray<std::int64_t> counts(seat.comm, 16, small_pages());
    GlobalArray<double> sums(seat.comm, 16, small_pages());
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(counts.fetch_add(9, -1).status.done());
      ASSERT_TRUE(sums.fetch_add(3, 0.5).status.done());
    }
    meet(seat);
    EXPECT_EQ(counts[9], -300);
    EXPECT_EQ(sums[3], 150.0);
    meet(seat);
    if (me.index() == 2) {
      EXPECT_EQ(counts.compare_swap(9, -300, 5).value, -300);
      EXPECT_EQ(counts.compare_swap(9, -300, 6).value, 5);
    }
    meet(seat);
    EXPECT_EQ(counts[9], 5);
    meet(seat);
  });
  fleet.expect_success();
}

TEST(GlobalArray, HasPointersThatStayValid) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    GlobalArray<std::uint64_t> array(seat.comm, kElements, small_pages());
    fill_together(seat, array);
    gas::GlobalPointer<std::uint64_t> at = array.pointer(20);
    EXPECT_EQ(*at, value_of(20));
    EXPECT_EQ(at[5], value_of(25));
    EXPECT_EQ(*(at - 1), value_of(19));
    EXPECT_EQ((at + 7) - at, 7);
    meet(seat);
    if (me.index() == 0) {
      ASSERT_TRUE(array.own(16, 16).status.done());
    }
    meet(seat);
    EXPECT_EQ(*++at, value_of(21));
    meet(seat);
    if (me.index() == 1) *at = 5;
    meet(seat);
    EXPECT_EQ(array[21], 5U);
    meet(seat);
  });
  fleet.expect_success();
}

TEST(GlobalArray, RefusesWhatThereIsNot) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    EXPECT_THROW(GlobalArray<std::uint64_t>(seat.comm, 10, {.page_bytes = 32}), UsageError);
    GlobalArray<std::uint64_t> array(seat.comm, kElements, small_pages());
    std::vector<std::uint64_t> two(2);
    EXPECT_THROW((void)array.get(kElements - 1, two), UsageError);
    EXPECT_THROW((void)array.put(kElements + 1, two), UsageError);
    EXPECT_THROW((void)array.own(0, kElements + 1), UsageError);
    EXPECT_THROW((void)array.gather(std::vector<std::uint64_t>{0, kElements}, two), UsageError);
    EXPECT_THROW((void)array.gather(std::vector<std::uint64_t>{0}, two), UsageError);
    EXPECT_TRUE(array.get(kElements, {}).done());
    meet(seat);
  });
  fleet.expect_success();
}

// A buffer that is not the patch's size, a shape that is larger than can be counted, a box that wraps around.
TEST(Patch, RefusesBuffersAndShapesThatDoNotFit) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    GlobalArray<std::uint64_t> array(seat.comm, 64, small_pages());
    constexpr gas::Shape<2> kShape = {8, 8};
    constexpr Patch<2> kPatch = {{1, 2}, {4, 5}};
    constexpr std::uint64_t kHuge = std::uint64_t{1} << 32U;
    constexpr std::uint64_t kMax = ~std::uint64_t{0};
    fill_together(seat, array);
    std::vector<std::uint64_t> buffer(21, 7);
    for (const std::size_t elements : {0U, 1U, 19U, 21U}) {
      const std::span<std::uint64_t> other(buffer.data(), elements);
      EXPECT_THROW((void)gas::get_patch(array, kShape, kPatch, other), UsageError) << elements;
      EXPECT_THROW((void)gas::put_patch(array, kShape, kPatch, std::span<const std::uint64_t>(other)), UsageError);
    }
    EXPECT_EQ(std::ranges::count(buffer, 7U), 21) << "something was read";
    const std::span<std::uint64_t> as_patch(buffer.data(), 20);
    EXPECT_TRUE(gas::get_patch(array, kShape, kPatch, as_patch).done());
    EXPECT_EQ(buffer[19], value_of(4 * 8 + 6));
    EXPECT_EQ(buffer[20], 7U);

    // Products of 2^64, of which 64 bits are 0; the elements of the patch alone; and extents that wrap.
    const Patch<2> one = {{0, 0}, {1, 1}};
    for (const gas::Shape<2>& shape : {gas::Shape<2>{kHuge, kHuge}, gas::Shape<2>{kMax, kMax}, gas::Shape<2>{8, 9}}) {
      EXPECT_THROW((void)gas::get_patch(array, shape, one, as_patch.first(1)), UsageError);
      EXPECT_THROW((void)gas::own_patch(array, shape, one), UsageError);
    }
    for (const Patch<2>& patch : {Patch<2>{{0, 0}, {kHuge, kHuge}}, Patch<2>{{kMax, 0}, {2, 1}},
                                  Patch<2>{{0, 8}, {1, 1}}, Patch<2>{{1, 1}, {kMax, 1}}}) {
      EXPECT_THROW((void)gas::get_patch(array, kShape, patch, as_patch), UsageError);
      EXPECT_THROW((void)gas::own_patch(array, kShape, patch), UsageError);
    }
    EXPECT_THROW(
        (void)gas::get_patch(array, gas::Shape<3>{kHuge, kHuge, 0}, Patch<3>{{0, 0, 0}, {1, 1, 1}}, as_patch.first(1)),
        UsageError);
    EXPECT_TRUE(gas::get_patch(array, kShape, Patch<2>{{3, 3}, {0, 5}}, as_patch.first(0)).done());
    EXPECT_EQ((Patch<2>{{0, 0}, {kHuge, kHuge}}).size(), kMax);
    EXPECT_EQ((Patch<3>{{0, 0, 0}, {kHuge, kHuge, 0}}).size(), 0U);
    meet(seat);
  });
  fleet.expect_success();
}

TEST(GlobalArray, RefusesCountsThatWrapAround) {
  Fleet fleet(2, [](Member& me) {
    Seat seat(me);
    constexpr std::uint64_t kMax = ~std::uint64_t{0};
    EXPECT_THROW(GlobalArray<std::uint64_t>(seat.comm, kMax, small_pages()), UsageError);
    EXPECT_THROW(GlobalArray<std::uint64_t>(seat.comm, kMax - 6, {.page_bytes = 16U << 20U}), UsageError);
    EXPECT_THROW((void)gas::Pages(seat.team, "pages", {.pages = kMax, .page_bytes = 64}), UsageError);
    EXPECT_THROW((void)gas::Pages(seat.team, "pages", {.pages = 0, .page_bytes = 64}), UsageError);
    gas::GlobalArrayOptions options = small_pages();
    options.remembered_places = kMax;  // more than there are pages is as many
    GlobalArray<std::uint64_t> array(seat.comm, kElements, options);
    fill_together(seat, array);

    EXPECT_THROW((void)array.own(1, kMax), UsageError);
    EXPECT_THROW((void)array.fill(kMax, 2, 0), UsageError);
    EXPECT_THROW((void)array.pin(static_cast<std::uint64_t>(-1)), UsageError);
    EXPECT_THROW((void)static_cast<std::uint64_t>(array.pointer(0)[-1]), UsageError);
    EXPECT_THROW((void)*array.end(), UsageError);
    EXPECT_THROW((void)array.fetch_add(kElements, 1), UsageError);
    // Nothing is copied when not all of it can be.
    EXPECT_THROW((void)array.copy(0, array, {kElements - 1, 2}), UsageError);
    EXPECT_EQ(array[0], value_of(0));
    std::uint64_t word = 0;
    EXPECT_THROW(array.pages().begin_get({0, 0, LocalSpan(&word, kMax)}), UsageError);
    EXPECT_THROW((void)array.pages().put({kMax, 0, LocalSpan(word)}, seat.deadline()), UsageError);
    EXPECT_THROW((void)array.pages().get({0, kMax, LocalSpan(word)}, seat.deadline()), UsageError);
    meet(seat);
    EXPECT_TRUE(array.balance(kMax).status.done());
    meet(seat);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
