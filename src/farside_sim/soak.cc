// Runs all scenarios under seed after seed for a given time, and keeps those that fail. How often each step met each
// fault is printed at the end.
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <vector>

#include <unistd.h>

#include "farside/base/error.h"

#include "farside_sim/commands.h"
#include "farside_sim/options.h"
#include "scenario/named.h"

namespace farside::farside_sim {

namespace {

using Clock = std::chrono::steady_clock;

struct WantedSoak {
  double minutes = 10;
  std::uint64_t first_seed = 0;
  std::string failures = "soak-failures.txt";
  std::vector<std::string> broken;
};

int soak(const WantedSoak& wanted) {
  std::ofstream failures(wanted.failures, std::ios::app);
  if (!failures) throw Error({"open", wanted.failures, "it cannot be written", "name another file with --failures"});

  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wanted.minutes * 60));
  std::vector<sim::FaultCount> counts(scenario::named_scenarios().size());
  std::uint64_t runs = 0;
  std::uint64_t failed = 0;
  std::uint64_t seed = wanted.first_seed;
  for (; Clock::now() < end; ++seed) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const scenario::NamedScenario& each = scenario::named_scenarios()[i];
      scenario::CacheScenario scenario = each.draw(seed);
      scenario.rules = rules_without(wanted.broken);
      const scenario::CacheResult result = scenario::run_cache_scenario(seed, scenario, false, &counts[i]);
      ++runs;
      if (!result.violation) continue;
      ++failed;
      failures << scenario::command_for(seed, each, scenario) << "  # " << *result.violation << std::endl;
    }
    if (shows_progress && seed % 16 == 0) std::cerr << '\r' << runs << " runs, " << failed << " failed" << std::flush;
  }
  if (shows_progress) std::cerr << '\n';
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::cout << scenario::named_scenarios()[i].name << ":\n" << counts[i].table() << '\n';
  }
  std::cout << runs << " runs, seeds " << wanted.first_seed << " to " << seed - 1 << " of every scenario: " << failed
            << " failed\n";
  if (failed != 0) std::cout << "the commands that show how are in " << wanted.failures << '\n';
  return failed == 0 ? 0 : 1;
}

}  // namespace

void add_soak(CLI::App& app, Action& chosen) {
  const auto wanted = std::make_shared<WantedSoak>();
  wanted->first_seed = static_cast<std::uint64_t>(std::time(nullptr));
  CLI::App* command = app.add_subcommand("soak", "Run all scenarios for a given time and keep the seeds that fail");
  command->add_option("--minutes", wanted->minutes, "For how long")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--first-seed", wanted->first_seed, "Where to begin; by default somewhere else each time");
  command->add_option("--failures", wanted->failures, "The file that gets a command for each seed that fails")
      ->capture_default_str();
  add_break(*command, wanted->broken);
  command->footer("Exit code 1 when a seed failed.\n\nExample:\n  farside-sim soak --minutes 60");
  command->callback([wanted, &chosen] { chosen = [wanted] { return soak(*wanted); }; });
}

}  // namespace farside::farside_sim
