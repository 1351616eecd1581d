// seat.h — what a rank of farside's contender has at hand.
#pragma once

#include "farside/comm/barrier.h"

#include "bench/gas/amounts.h"
#include "bench/harness/seat.h"

namespace farside::bench {

struct GasSeat : Seat {
  [[nodiscard]] team::Rank last() const { return size() - 1; }
  void meet() { check(barrier.pass(*channel, deadline()), "meeting"); }

  comm::Barrier barrier{comm};
};

inline constexpr team::Rank kHome = 1;  ///< of the pages that are got, put and owned

}  // namespace farside::bench
