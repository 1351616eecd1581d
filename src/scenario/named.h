// named.h — everything about a scenario, by name: for the command line, for shrinking, and for what either prints.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "scenario/cache_scenario.h"

namespace farside::scenario {

struct NamedScenario {
  std::string_view name;
  std::string_view about;
  CacheScenario (*draw)(std::uint64_t seed);
};
[[nodiscard]] std::span<const NamedScenario> named_scenarios();
/// Null when there is none.
[[nodiscard]] const NamedScenario* find_scenario(std::string_view name);

struct NamedNumber {
  std::string_view name;
  std::uint32_t CacheScenario::*value;
  std::uint32_t least;    ///< with which a scenario is one
  bool is_amount = true;  ///< of processes, operations or faults: the fewer, the smaller
};
[[nodiscard]] std::span<const NamedNumber> named_numbers();

struct NamedSwitch {
  std::string_view name;
  bool sim::Network::*on;
};
[[nodiscard]] std::span<const NamedSwitch> named_switches();
/// The grain of a random network: in half of them words are split.
[[nodiscard]] std::uint32_t draw_grain(sim::Scheduler& dice);

struct NamedRule {
  std::string_view name;
  Rule cache::CacheRules::*kept;
};
[[nodiscard]] std::span<const NamedRule> named_rules();

/// The command that runs `scenario`, which was drawn from `drawn_from` and changed, once more.
[[nodiscard]] std::string command_for(std::uint64_t seed, const NamedScenario& drawn_from,
                                      const CacheScenario& scenario);

}  // namespace farside::scenario
