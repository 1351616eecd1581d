// meetings.h — what all ranks do together: barriers, reductions, phases.
#pragma once

#include "farside/comm/arrival_counter.h"
#include "farside/comm/barrier.h"
#include "farside/comm/collectives.h"

#include "bench/comm/farside/seat.h"

namespace farside::bench {

class Meetings {
 public:
  /// Collective.
  explicit Meetings(CommSeat& seat);
  void offer(Work& work);

 private:
  void split_barriers(std::uint64_t rounds);
  void computations_with_barriers(std::uint64_t rounds);
  void all_reduce(std::uint64_t bytes, std::uint64_t rounds);
  void counted_phases(std::uint64_t bytes, std::uint64_t rounds);
  void met_phases(std::uint64_t bytes, std::uint64_t rounds);

  CommSeat& seat_;
  comm::Barrier barrier_;
  comm::Collectives collectives_;
  comm::ArrivalCounter counter_;
  std::unique_ptr<team::SymmetricRegion> data_;
  std::vector<double> values_ = std::vector<double>(kLargestBytes / sizeof(double));
  std::uint64_t phases_ = 0;
};

}  // namespace farside::bench
