// elements.h — all ranks at once use elements of one array: at random, and those that follow each other.
#pragma once

#include <vector>

#include "farside/gas/global_array.h"

#include "bench/gas/farside/seat.h"

namespace farside::bench {

class Elements {
 public:
  /// Collective.
  explicit Elements(GasSeat& seat);
  void offer(Work& work);

 private:
  void gather();

  GasSeat& seat_;
  gas::GlobalArray<std::uint64_t> array_;
  RandomIndices random_;
  std::vector<std::uint64_t> indices_ = std::vector<std::uint64_t>(kGathered);
  std::vector<std::uint64_t> values_ = std::vector<std::uint64_t>(kElementsOfRun);
};

}  // namespace farside::bench
