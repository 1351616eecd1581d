// atomics.h — what an atomic makes of a word.
//
// Stands alone: two kinds of simulated channel carry out atomics.
#pragma once

#include "farside/fabric/channel.h"

namespace farside::sim {

[[nodiscard]] inline std::uint64_t changed_by(const Operation& atomic, std::uint64_t old) {
  switch (atomic.kind) {
    case Operation::Kind::fetch_add: return old + atomic.operand;
    case Operation::Kind::swap: return atomic.operand;
    default: return old == atomic.expected ? atomic.operand : old;
  }
}

}  // namespace farside::sim
