// seat.h — what a rank of farside's contender has at hand.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "farside/comm/barrier.h"
#include "farside/comm/comm.h"

#include "bench/gas/amounts.h"

namespace farside::bench {

inline void check(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + " failed");
}
inline void check(const Ended& ended, const char* what) { check(ended.done(), what); }
inline void check(Outcome outcome, const char* what) { check(outcome == Outcome::done, what); }

struct Seat {
  [[nodiscard]] Deadline patience() const { return team->fabric().in(std::chrono::minutes(1)); }
  [[nodiscard]] Rank rank() const { return team->rank(); }
  [[nodiscard]] Rank size() const { return team->size(); }
  [[nodiscard]] Rank last() const { return size() - 1; }
  void meet() { check(barrier.pass(*channel, patience()), "meeting"); }

  std::unique_ptr<Team> team = join_team();
  Comm comm{*team};
  std::unique_ptr<Channel> channel = comm.open_channel();
  Barrier barrier{comm};
};

inline constexpr Rank kHome = 1;  ///< of the pages that are got, put and owned

}  // namespace farside::bench
