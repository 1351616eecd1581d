// kv_faults.h — which faults the steps of kv's protocol must meet under the seeds of a test.
#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "sim/fault_count.h"

namespace farside::sim {

/// The step is called as in FaultCount::table.
inline void expect_met(const FaultCount& count, const std::string& step, Fault fault) {
  constexpr std::uint64_t kFloor = 3;
  EXPECT_GE(count.count(step, fault), kFloor) << step << ": " << to_string(fault);
}

}  // namespace farside::sim
