// place.h — what a member of a fleet has at hand in gas's tests.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "farside/gas/global_array.h"

#include "tests/comm/seat.h"
#include "tests/support/reduced.h"

namespace farside::test {

inline gas::GlobalArrayOptions small_pages(gas::Distribution distribution = gas::cyclic()) {
  return {.page_bytes = 64,
          .distribution = std::move(distribution),
          .time_out = std::chrono::duration_cast<std::chrono::milliseconds>(extended(std::chrono::seconds(30)))};
}

/// All ranks' work on memory is over.
inline void meet(Seat& seat) {
  EXPECT_TRUE(seat.comm.wait(*seat.channel, seat.comm.issued(), seat.deadline()).done());
  EXPECT_EQ(seat.team.barrier(seat.deadline()), Outcome::done);
}

}  // namespace farside::test
