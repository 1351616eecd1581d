// faults_met.h — which faults the seeds of a test have the steps of a protocol meet.
#pragma once

#include <algorithm>
#include <iostream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "sim/fault_count.h"

namespace farside::sim {

/// Prints the table, and below it what single steps never met. Each fault must be met by some of the `steps` steps.
inline void expect_each_met(const FaultCount& count, std::size_t steps) {
  std::cout << count.table();
  const std::set<std::string> missing = count.missing();
  for (const std::string& each : missing) std::cout << "never met: " << each << '\n';
  for (std::size_t fault = 0; fault < FaultCount::kFaults; ++fault) {
    const std::string name = ": " + std::string(to_string(static_cast<Fault>(fault)));
    const auto without = std::ranges::count_if(missing, [&name](const auto& each) { return each.ends_with(name); });
    EXPECT_LT(static_cast<std::size_t>(without), steps) << "no step met" << name;
  }
}

}  // namespace farside::sim
