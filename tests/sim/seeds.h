// seeds.h — a scenario under one seed after the other: nothing may be found wrong, unless a rule was broken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace farside::sim {

/// What the first seed from 1 to `seeds` brings up for which `run(seed)` finds something wrong, if there is one.
template <class Run>
std::optional<std::string> first_violation(std::uint64_t seeds, Run run) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    if (const std::optional<std::string> violation = run(seed)) return *violation + ", seed " + std::to_string(seed);
  }
  return std::nullopt;
}

}  // namespace farside::sim
