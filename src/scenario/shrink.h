// shrink.h — finds a smaller scenario that fails as well.
#pragma once

#include <string>

#include "scenario/named.h"

namespace farside::scenario {

struct Failing {
  std::uint64_t seed;
  CacheScenario scenario;
  std::string violation;
};

/// Takes away processes, operations and faults, one at a time, as long as some seed still fails; what fails may be
/// another promise.
[[nodiscard]] Failing shrink(const Failing& found);

}  // namespace farside::scenario
