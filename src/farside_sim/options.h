// options.h — options that several commands have.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "farside/base/error.h"

#include "scenario/named.h"

namespace farside::farside_sim {

template <class Named>
[[nodiscard]] std::vector<std::string> names_of(std::span<const Named> all) {
  std::vector<std::string> names;
  for (const Named& each : all) names.emplace_back(each.name);
  return names;
}

/// An option that takes names out of `choices`, and may be given again.
inline CLI::Option* add_names(CLI::App& app, const std::string& option, std::vector<std::string>& into,
                              const std::string& about, const std::vector<std::string>& choices) {
  return app.add_option(option, into, about)->check(CLI::IsMember(choices))->take_all();
}

inline CLI::Option* add_break(CLI::App& app, std::vector<std::string>& into) {
  return add_names(app, "--break", into, "A rule of the protocol to break", names_of(scenario::named_rules()));
}

/// The rules without those that are named in `broken`. Throws UsageError when this build breaks none.
[[nodiscard]] inline cache::CacheRules rules_without(const std::vector<std::string>& broken) {
  if (!Rule::kBreakable && !broken.empty()) {
    throw UsageError(
        {"break the rule", broken.front(), "this build keeps all rules",
         "use build/breakable/bin/farside-sim, after cmake --preset breakable && cmake --build --preset breakable"});
  }
  cache::CacheRules rules;
  for (const scenario::NamedRule& each : scenario::named_rules()) {
    rules.*each.kept = std::ranges::find(broken, each.name) == broken.end();
  }
  return rules;
}

}  // namespace farside::farside_sim
