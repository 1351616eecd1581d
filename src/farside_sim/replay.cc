// Runs one scenario under one seed, again and again the same; of a violation it shows the last steps, and a smaller
// scenario that fails as well.
#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "farside_sim/commands.h"
#include "farside_sim/options.h"
#include "scenario/named.h"
#include "scenario/shrink.h"

namespace farside::farside_sim {

namespace {

struct WantedReplay {
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
  std::string scenario;
  std::map<std::string, std::uint32_t> numbers;
  std::optional<std::uint32_t> grain_bytes;
  std::vector<std::string> with;
  std::vector<std::string> without;
  std::vector<std::string> broken;
  std::size_t last_steps = 40;
};

bool among(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

scenario::CacheScenario scenario_of(const WantedReplay& wanted, std::uint64_t seed) {
  scenario::CacheScenario scenario = scenario::find_scenario(wanted.scenario)->draw(seed);
  for (const scenario::NamedNumber& each : scenario::named_numbers()) {
    const auto given = wanted.numbers.find(std::string(each.name));
    if (given != wanted.numbers.end()) scenario.*each.value = std::max(given->second, each.least);
  }
  scenario.network.grain_bytes = wanted.grain_bytes.value_or(scenario.network.grain_bytes);
  for (const scenario::NamedSwitch& each : scenario::named_switches()) {
    if (among(wanted.with, each.name)) scenario.network.*each.on = true;
    if (among(wanted.without, each.name)) scenario.network.*each.on = false;
  }
  scenario.rules = rules_without(wanted.broken);
  return scenario;
}

// The first of the seeds that are to be tried under which something is violated, or the last.
std::uint64_t seed_to_show(const WantedReplay& wanted) {
  const std::uint64_t last = wanted.seed + wanted.seeds - 1;
  for (std::uint64_t seed = wanted.seed; seed < last; ++seed) {
    if (scenario::run_cache_scenario(seed, scenario_of(wanted, seed)).violation) return seed;
  }
  return last;
}

int replay(const WantedReplay& wanted) {
  const scenario::NamedScenario& drawn_from = *scenario::find_scenario(wanted.scenario);
  const std::uint64_t seed = seed_to_show(wanted);
  const scenario::CacheScenario scenario = scenario_of(wanted, seed);
  const scenario::CacheResult result = scenario::run_cache_scenario(seed, scenario, true);
  std::cout << "seed " << seed << ", hash " << sim::hexadecimal(result.hash) << '\n';
  if (!result.violation) return 0;

  const std::size_t first = result.steps.size() - std::min(result.steps.size(), wanted.last_steps);
  std::cout << "the last " << result.steps.size() - first << " of " << result.steps.size() << " steps:\n";
  for (std::size_t step = first; step < result.steps.size(); ++step) std::cout << "  " << result.steps[step] << '\n';
  std::cout << "violated: " << *result.violation << '\n';

  const scenario::Failing smallest = scenario::shrink({seed, scenario, *result.violation});
  std::cout << "smaller: " << scenario::command_for(smallest.seed, drawn_from, smallest.scenario) << '\n'
            << "  which ends with: " << smallest.violation << '\n';
  return 1;
}

}  // namespace

void add_replay(CLI::App& app, Action& chosen) {
  const auto wanted = std::make_shared<WantedReplay>();
  std::string about = "What to run:";
  for (const scenario::NamedScenario& each : scenario::named_scenarios()) {
    about += "\n" + std::string(each.name) + ": " + std::string(each.about);
  }
  app.add_option("SCENARIO", wanted->scenario, about)->check(CLI::IsMember(names_of(scenario::named_scenarios())));
  app.add_option("--seed", wanted->seed, "What the run depends on")->capture_default_str();
  app.add_option("--seeds", wanted->seeds, "How many seeds to try, until something is violated")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", wanted->last_steps, "How many steps before a violation to show")->capture_default_str();
  for (const scenario::NamedNumber& each : scenario::named_numbers()) {
    const std::string name(each.name);
    app.add_option_function<std::uint32_t>("--" + name, [wanted, name](std::uint32_t n) { wanted->numbers[name] = n; })
        ->group("Instead of what the seed draws");
  }
  app.add_option("--grain", wanted->grain_bytes, "Bytes of a bulk transfer that are READ or WRITTEN as one")
      ->check(CLI::IsMember({4U, 8U, 64U}))
      ->group("Instead of what the seed draws");
  for (CLI::Option* const option :
       {add_names(app, "--with", wanted->with, "A fault of the network that there is",
                  names_of(scenario::named_switches())),
        add_names(app, "--without", wanted->without, "One that there is not", names_of(scenario::named_switches())),
        add_break(app, wanted->broken)}) {
    option->group("Instead of what the seed draws");
  }
  app.footer(
      "Exit code 1 when something was violated. Only the build of the preset breakable can break rules.\n\n"
      "Examples:\n  farside-sim --seed 7 cache\n  farside-sim --seeds 1000 cache --break reads_header_again");
  app.callback([wanted, &chosen] {
    if (!wanted->scenario.empty()) chosen = [wanted] { return replay(*wanted); };
  });
}

}  // namespace farside::farside_sim
