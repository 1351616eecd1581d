// nicam_runs.h — small SPMD programs on a modelled machine. The signals, copies and meetings are those of comm; what
// the service thread does there, a thread of its own does here. Computing is a sleep.
//
// Each gives the virtual seconds of one round, from when all began until the last was through.
#pragma once

#include "farside/team/team.h"

#include "figures/conditions.h"

namespace farside::figures {

/// Jacobi's method on a square, each rank with a band of rows: a round exchanges the outermost rows and computes all.
struct Laplace {
  team::Rank ranks;
  std::uint64_t size;  ///< rows and columns
  Duration cell;       ///< to compute one
  bool overlaps;       ///< rows are under way while the others are computed
};
[[nodiscard]] double seconds_per_round(const Conditions& conditions, const Laplace& laplace);

/// A square is shifted by one row, each rank with a band of rows: a round sends one row and copies the others.
struct Shift {
  team::Rank ranks;
  std::uint64_t size;
  bool relaxed;  ///< the barrier is begun when the result is dropped, and ends in the background
};
[[nodiscard]] double seconds_per_round(const Conditions& conditions, const Shift& shift);

struct Barriers {
  enum class Kind {
    meeting,   ///< comm's: a tree of counters
    messages,  ///< each rank tells another one, in as many steps as the number of ranks can be halved
  };
  team::Rank ranks;
  Kind kind;
};
[[nodiscard]] double seconds_per_round(const Conditions& conditions, const Barriers& barriers);

}  // namespace farside::figures
