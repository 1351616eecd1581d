// Runs one scenario under one seed, again and again the same.
#include <iostream>

#include "farside_sim/commands.h"
#include "scenario/cache_scenario.h"

namespace farside::sim {

namespace {

int replay(std::uint64_t seed) {
  const CacheResult result = run_cache_scenario(seed, random_cache_scenario(seed));
  std::cout << "seed " << seed << ", hash " << std::hex << result.hash << std::dec << '\n';
  if (!result.violation) return 0;
  std::cout << "violated: " << *result.violation << '\n';
  return 1;
}

}  // namespace

void add_replay(CLI::App& app, Action& chosen) {
  static constexpr const char* kScenario = "cache";
  const auto seed = std::make_shared<std::uint64_t>(1);
  app.add_option("--seed", *seed, "What the run depends on")->capture_default_str();
  CLI::Option* const scenario = app.add_option("SCENARIO", "What to run: cache")->check(CLI::IsMember({kScenario}));
  app.footer("Example:\n  farside-sim --seed 7 cache");
  app.callback([scenario, seed, &chosen] {
    if (scenario->count() != 0) chosen = [seed] { return replay(*seed); };
  });
}

}  // namespace farside::sim
