// What collective operations promise, between real processes, for sizes of one meeting, of one piece and of several.
#include "farside/comm/collectives.h"

#include <numeric>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "tests/comm/seat.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using comm::Collectives;
using team::Rank;

struct Shape {
  unsigned members;
  std::size_t elements;
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.elements << " elements of " << shape.members; }

constexpr std::size_t kSmall = Collectives::kSmallBytes / sizeof(double);

class Collective : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Collective,
                         testing::Values(Shape{1, 5}, Shape{2, 1}, Shape{3, 0}, Shape{3, kSmall}, Shape{3, kSmall + 1},
                                         Shape{3, 100'001}, Shape{4, 3000}, Shape{9, 7}, Shape{9, 2001}));

/// What member `rank` brings in `round`: small whole numbers, so that sums of doubles are exact.
template <class T>
std::vector<T> values_of(Rank rank, std::size_t elements, std::size_t round) {
  std::vector<T> values(elements);
  for (std::size_t at = 0; at < elements; ++at) values[at] = static_cast<T>((at * 7 + rank * 13 + round) % 101 + 1);
  return values;
}

/// What reducing the values of all ranks one after the other gives.
template <class T, class Operator>
std::vector<T> reduced_one_by_one(const Shape& shape, std::size_t round, Operator combine) {
  std::vector<T> result = values_of<T>(0, shape.elements, round);
  for (Rank rank = 1; rank < shape.members; ++rank) {
    const std::vector<T> values = values_of<T>(rank, shape.elements, round);
    std::ranges::transform(result, values, result.begin(), combine);
  }
  return result;
}

TEST_P(Collective, AllReduceGivesEachRankTheResult) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    std::size_t round = 0;
    const auto expect_reduced = [&](auto zero, auto combine) {
      using T = decltype(zero);
      ++round;
      std::vector<T> values = values_of<T>(me.index(), GetParam().elements, round);
      ASSERT_TRUE(group.all_reduce(*seat.channel, std::span(values), seat.deadline(), combine).done());
      EXPECT_EQ(values, reduced_one_by_one<T>(GetParam(), round, combine)) << "round " << round;
    };
    expect_reduced(std::int64_t{}, std::plus<>());
    expect_reduced(double{}, std::plus<>());
    expect_reduced(float{}, comm::Min());
    expect_reduced(std::uint8_t{}, comm::Max());
    expect_reduced(std::uint64_t{}, std::multiplies<>());
    expect_reduced(std::uint32_t{}, std::bit_xor<>());
    expect_reduced(std::uint16_t{}, std::bit_or<>());
    expect_reduced(std::uint64_t{}, std::bit_and<>());
    // One that does not commute: the last rank's values.
    expect_reduced(std::int32_t{}, [](std::int32_t /*earlier*/, std::int32_t later) { return later; });
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, ReduceGivesTheRootTheResultAndLeavesTheOthersAlone) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    for (Rank root = 0; root < std::min(me.count(), 3U); ++root) {
      std::vector<double> values = values_of<double>(me.index(), GetParam().elements, root);
      ASSERT_TRUE(group.reduce(*seat.channel, root, std::span(values), seat.deadline()).done());
      EXPECT_EQ(values, me.index() == root ? reduced_one_by_one<double>(GetParam(), root, std::plus<>())
                                           : values_of<double>(me.index(), GetParam().elements, root));
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, AllGatherOrdersTheValuesByRank) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    const std::size_t elements = GetParam().elements;
    for (std::size_t round = 0; round < 3; ++round) {
      std::vector<std::uint32_t> mine = values_of<std::uint32_t>(me.index(), elements, round);
      std::vector<std::uint32_t> all(me.count() * elements);
      ASSERT_TRUE(group.all_gather(*seat.channel, std::span(mine), std::span(all), seat.deadline()).done());
      for (Rank rank = 0; rank < me.count(); ++rank) {
        const std::span<const std::uint32_t> of_rank = std::span(all).subspan(rank * elements, elements);
        EXPECT_TRUE(std::ranges::equal(of_rank, values_of<std::uint32_t>(rank, elements, round))) << "of rank " << rank;
      }
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, BroadcastGivesAllWhatTheRootHas) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    for (Rank root = 0; root < std::min(me.count(), 3U); ++root) {
      std::vector<std::uint16_t> values = values_of<std::uint16_t>(me.index(), GetParam().elements, root);
      ASSERT_TRUE(group.broadcast(*seat.channel, root, values, seat.deadline()).done());
      EXPECT_EQ(values, values_of<std::uint16_t>(root, GetParam().elements, root)) << "from " << root;
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, ScatterGivesEachItsPieceOfWhatTheRootHas) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    const std::size_t elements = GetParam().elements;
    for (Rank root = 0; root < std::min(me.count(), 3U); ++root) {
      const auto all = values_of<double>(root, me.index() == root ? me.count() * elements : 0, 5);
      std::vector<double> mine(elements);
      ASSERT_TRUE(group.scatter(*seat.channel, root, all, mine, seat.deadline()).done());
      const auto of_root = values_of<double>(root, me.count() * elements, 5);
      EXPECT_TRUE(std::ranges::equal(mine, std::span(of_root).subspan(me.index() * elements, elements)));
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, GatherGivesTheRootAllPieces) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    for (Rank root = 0; root < std::min(me.count(), 3U); ++root) {
      const auto mine = values_of<std::int32_t>(me.index(), GetParam().elements, root);
      std::vector<std::int32_t> all(me.index() == root ? me.count() * GetParam().elements : 0);
      ASSERT_TRUE(group.gather(*seat.channel, root, mine, all, seat.deadline()).done());
      std::vector<std::int32_t> expected;
      for (Rank rank = 0; me.index() == root && rank < me.count(); ++rank) {
        const auto values = values_of<std::int32_t>(rank, GetParam().elements, root);
        expected.insert(expected.end(), values.begin(), values.end());
      }
      EXPECT_EQ(all, expected) << "at " << root;
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, AllGatherTakesDifferentLengths) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    std::vector<std::size_t> lengths;
    std::vector<std::uint32_t> expected;
    for (Rank rank = 0; rank < me.count(); ++rank) {
      lengths.push_back(rank % 3 == 1 ? 0 : GetParam().elements + rank);  // some bring nothing
      const auto values = values_of<std::uint32_t>(rank, lengths.back(), 1);
      expected.insert(expected.end(), values.begin(), values.end());
    }
    const auto mine = values_of<std::uint32_t>(me.index(), lengths[me.index()], 1);
    std::vector<std::uint32_t> all(expected.size());
    ASSERT_TRUE(group.all_gather(*seat.channel, mine, lengths, all, seat.deadline()).done());
    EXPECT_EQ(all, expected);
    lengths[me.index()] += 1;
    EXPECT_THROW((void)group.begin_all_gather(*seat.channel, mine, lengths, all, seat.deadline()), UsageError);
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, AllToAllTakesDifferentLengths) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    // What `from` sends to `to`.
    const auto piece = [](Rank from, Rank to) {
      const std::size_t length = (from + to) % 3 == 1 ? 0 : GetParam().elements + std::size_t{from} * 2 + to;
      return values_of<std::uint64_t>(from * 16 + to, length, 0);
    };
    std::vector<std::uint64_t> from;
    std::vector<std::uint64_t> expected;
    std::vector<std::size_t> to_each;
    std::vector<std::size_t> from_each;
    for (Rank other = 0; other < me.count(); ++other) {
      const auto sent = piece(me.index(), other);
      const auto got = piece(other, me.index());
      from.insert(from.end(), sent.begin(), sent.end());
      expected.insert(expected.end(), got.begin(), got.end());
      to_each.push_back(sent.size());
      from_each.push_back(got.size());
    }
    std::vector<std::uint64_t> into(expected.size());
    ASSERT_TRUE(group.all_to_all(*seat.channel, from, to_each, into, from_each, seat.deadline()).done());
    EXPECT_EQ(into, expected);
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, ReduceScatterGivesEachItsPieceOfTheResult) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    const std::size_t elements = GetParam().elements;
    const Shape whole{me.count(), me.count() * elements};
    const auto values = values_of<double>(me.index(), whole.elements, 3);
    std::vector<double> mine(elements);
    ASSERT_TRUE(group.reduce_scatter(*seat.channel, values, mine, seat.deadline()).done());
    const auto result = reduced_one_by_one<double>(whole, 3, std::plus<>());
    EXPECT_TRUE(std::ranges::equal(mine, std::span(result).subspan(me.index() * elements, elements)));
    EXPECT_EQ(values, values_of<double>(me.index(), whole.elements, 3));
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, ScansGiveEachWhatIsUpToIt) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    const Shape before{me.index(), GetParam().elements};
    const Shape up_to{me.index() + 1, GetParam().elements};
    std::vector<double> values = values_of<double>(me.index(), GetParam().elements, 4);
    ASSERT_TRUE(group.scan(*seat.channel, values, seat.deadline()).done());
    EXPECT_EQ(values, reduced_one_by_one<double>(up_to, 4, std::plus<>()));
    // One that does not commute: the last rank's values.
    const auto last = [](std::uint32_t /*earlier*/, std::uint32_t later) { return later; };
    std::vector<std::uint32_t> others = values_of<std::uint32_t>(me.index(), GetParam().elements, 4);
    ASSERT_TRUE(group.exclusive_scan(*seat.channel, others, seat.deadline(), last).done());
    EXPECT_EQ(others, me.index() == 0 ? values_of<std::uint32_t>(0, GetParam().elements, 4)
                                      : reduced_one_by_one<std::uint32_t>(before, 4, last));
    seat.leave(me);
  });
  fleet.expect_success();
}

TEST_P(Collective, AllToAllGivesEachItsPieces) {
  Fleet fleet(GetParam().members, [](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    const std::size_t elements = GetParam().elements;
    // What `from` sends to `to` is what rank from * 16 + to would bring.
    std::vector<std::uint64_t> from;
    std::vector<std::uint64_t> expected;
    for (Rank rank = 0; rank < me.count(); ++rank) {
      std::ranges::copy(values_of<std::uint64_t>(me.index() * 16 + rank, elements, 0), std::back_inserter(from));
      std::ranges::copy(values_of<std::uint64_t>(rank * 16 + me.index(), elements, 0), std::back_inserter(expected));
    }
    std::vector<std::uint64_t> into(from.size());
    ASSERT_TRUE(group.all_to_all(*seat.channel, std::span(from), std::span(into), seat.deadline()).done());
    EXPECT_EQ(into, expected);
    seat.leave(me);
  });
  fleet.expect_success();
}

// Rounding does not depend on who comes last: the same bits, at all members, each time.
TEST(Collectives, RoundTheSameWayEachTime) {
  const std::uint64_t kRounds = reduced(50);
  Fleet fleet(4, [&](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    for (const std::size_t elements : {std::size_t{3}, std::size_t{3000}}) {
      std::vector<float> first;
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        std::vector<float> values(elements, 1.0F / static_cast<float>(3 + me.index() * me.index()));
        if (me.index() == 2) values.assign(elements, 1e8F);
        ASSERT_TRUE(group.all_reduce(*seat.channel, std::span(values), seat.deadline()).done());
        if (first.empty()) first = values;
        ASSERT_EQ(values, first);
      }
      const std::vector<std::string> all = me.exchange(std::to_string(first.front()));
      EXPECT_EQ(all[0], all[me.index()]);
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

// Four are under way at once, and end without a call by any rank; each keeps its values until it is ended, in any
// order, while others go on. A fifth is refused.
TEST(Collectives, HaveFourUnderWay) {
  const std::uint64_t kRounds = reduced(20);
  Fleet fleet(3, [&](Member& me) {
    Seat seat(me);
    Collectives group(seat.comm);
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      std::vector<std::uint64_t> sum{me.index() + round};
      std::vector<std::uint64_t> greatest{me.index() + round};
      std::vector<std::uint64_t> mine{me.index() + round};
      std::vector<std::uint64_t> all(me.count());
      std::vector<std::uint64_t> swapped(me.count());
      std::vector<std::uint64_t> to_each(me.count(), me.index() + round);
      auto summing = group.begin_all_reduce(*seat.channel, std::span(sum), seat.deadline());
      auto gathering = group.begin_all_gather(*seat.channel, std::span(mine), std::span(all), seat.deadline());
      auto comparing = group.begin_all_reduce(*seat.channel, std::span(greatest), seat.deadline(), comm::Max());
      auto swapping = group.begin_all_to_all(*seat.channel, std::span(to_each), std::span(swapped), seat.deadline());
      EXPECT_THROW((void)group.begin_all_reduce(*seat.channel, std::span(mine), seat.deadline()), UsageError);
      EXPECT_TRUE(eventually([&] { return swapping.ended() && gathering.ended() && summing.ended(); }));
      ASSERT_TRUE(swapping.end(*seat.channel, seat.deadline()).done());
      ASSERT_TRUE(gathering.end(*seat.channel, seat.deadline()).done());
      ASSERT_TRUE(summing.end(*seat.channel, seat.deadline()).done());
      ASSERT_TRUE(comparing.end(*seat.channel, seat.deadline()).done());
      const std::vector<std::uint64_t> expected{round, round + 1, round + 2};
      EXPECT_EQ(all, expected);
      EXPECT_EQ(swapped, expected);
      EXPECT_EQ(sum[0], 3 + 3 * round);
      EXPECT_EQ(greatest[0], round + 2);
    }
    seat.leave(me);
  });
  fleet.expect_success();
}

// Groups have operations of their own.
TEST(Collectives, AreOfAGroup) {
  Fleet fleet(5, [](Member& me) {
    Seat seat(me);
    const bool odd = me.index() % 2 == 1;
    Collectives group(seat.comm, odd ? std::vector<Rank>{1, 3} : std::vector<Rank>{0, 2, 4});
    if (odd) me.barrier();
    for (int round = 0; round < 20; ++round) {
      std::vector<Rank> sum(3000, me.index());
      ASSERT_TRUE(group.all_reduce(*seat.channel, std::span(sum), seat.deadline()).done());
      ASSERT_EQ(sum, std::vector<Rank>(3000, odd ? 4 : 6));
    }
    if (!odd) me.barrier();
    std::vector<Rank> values{me.index()};
    EXPECT_THROW((void)group.reduce(*seat.channel, odd ? 0 : 1, std::span(values), seat.deadline()), UsageError);
    // An element goes in one piece.
    struct Large {
      std::array<std::uint64_t, std::size_t{1} << 20U> words;
    };
    std::vector<Large> large(1);
    const auto first = [](const Large& one, const Large&) { return one; };
    EXPECT_THROW((void)group.all_reduce(*seat.channel, std::span(large), seat.deadline(), first), UsageError);
    seat.leave(me);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
