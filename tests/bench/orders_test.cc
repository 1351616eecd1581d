// What rank 0 of a benchmark tells the others.
#include "bench/comm/farside/orders.h"

#include <gtest/gtest.h>

#include "tests/support/fleet_team.h"

namespace farside::test {
namespace {

// Rank 0 may be through with an operation before the others have looked at it: their next order waits until they have.
TEST(Orders, AreTakenByEachRankOnceAndInTurn) {
  constexpr std::uint64_t kOrders = 1000;
  Fleet fleet(3, [](Member& me) {
    FleetTeam team(me);
    const auto channel = team.fabric().open_channel();
    bench::Orders orders(team, *channel);
    for (std::uint64_t number = 1; number <= kOrders; ++number) {
      if (me.index() == 0) {
        orders.give({.operation = number, .amount = 2 * number, .rounds = 3 * number});
        continue;
      }
      const bench::Command command = orders.next();
      ASSERT_EQ(command.operation, number);
      ASSERT_EQ(command.amount, 2 * number);
      ASSERT_EQ(command.rounds, 3 * number);
    }
    me.barrier();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
