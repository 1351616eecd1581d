// conditions.h — what a figure is measured on.
//
// Stands alone: the figures of both papers are measured under them.
#pragma once

#include <cstdint>

#include "sim/machine.h"

namespace farside::figures {

enum class Effort {
  full,   ///< the sizes of the paper
  quick,  ///< few nodes, and little to do: shows that it works, in a second or two
};

struct Conditions {
  sim::Machine machine;
  Effort effort = Effort::full;
  std::uint64_t seed = 1;

  template <class T>
  [[nodiscard]] T either(T full, T quick) const {
    return effort == Effort::full ? full : quick;
  }
};

}  // namespace farside::figures
