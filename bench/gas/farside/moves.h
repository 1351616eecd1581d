// moves.h — pages that rank 0 takes over from the last rank, which takes them back in between; their home is rank 1.
#pragma once

#include <map>
#include <vector>

#include "farside/gas/pages.h"

#include "bench/gas/farside/seat.h"

namespace farside::bench {

class Moves {
 public:
  /// Collective.
  explicit Moves(GasSeat& seat);
  void offer(Work& work);

 private:
  struct Sized {
    Sized(GasSeat& seat, std::uint64_t bytes);

    gas::Pages pages;
    gas::PageAccess access;
  };

  /// How long an own of `count` pages takes rank 0, by page.
  Nanoseconds own_many(std::uint64_t count, std::uint64_t rounds);
  /// How long an own takes rank 0 when the ranks from 1 to `sharers` remember where the page is.
  Nanoseconds own(std::uint64_t bytes, team::Rank sharers, std::uint64_t rounds);

  GasSeat& seat_;
  std::vector<gas::PageId> moved_;
  std::map<std::uint64_t, Sized> sized_;
  gas::Pages many_;
  gas::PageAccess access_to_many_;
};

}  // namespace farside::bench
