#include "scenario/shrink.h"

#include <optional>

namespace farside::scenario {

namespace {

// A smaller scenario takes another course under the same seed, so that others are tried as well.
constexpr std::uint64_t kSeeds = 100;

std::optional<Failing> fails(std::uint64_t first_seed, const CacheScenario& scenario) {
  for (std::uint64_t seed = first_seed; seed < first_seed + kSeeds; ++seed) {
    const CacheResult result = run_cache_scenario(seed, scenario);
    if (result.violation) return Failing{seed, scenario, *result.violation};
  }
  return std::nullopt;
}

// Whether `smallest` has become smaller by taking `smaller`.
bool take(Failing& smallest, const CacheScenario& smaller) {
  auto found = fails(smallest.seed, smaller);
  if (!found) return false;
  smallest = *std::move(found);
  return true;
}

// Whether one of the numbers has become smaller: the least that there can be, or half, or one less.
bool take_fewer(Failing& smallest, const NamedNumber& number) {
  const std::uint32_t now = smallest.scenario.*number.value;
  for (const std::uint32_t fewer : {number.least, now / 2, now - 1}) {
    if (fewer >= now || fewer < number.least) continue;
    CacheScenario smaller = smallest.scenario;
    smaller.*number.value = fewer;
    if (take(smallest, smaller)) return true;
  }
  return false;
}

bool take_without(Failing& smallest, const NamedSwitch& fault) {
  if (!(smallest.scenario.network.*fault.on)) return false;
  CacheScenario smaller = smallest.scenario;
  smaller.network.*fault.on = false;
  return take(smallest, smaller);
}

}  // namespace

Failing shrink(const Failing& found) {
  Failing smallest = found;
  for (bool shrank = true; shrank;) {
    shrank = false;
    for (const NamedNumber& number : named_numbers()) {
      shrank |= number.is_amount && take_fewer(smallest, number);
    }
    for (const NamedSwitch& fault : named_switches()) shrank |= take_without(smallest, fault);
  }
  return smallest;
}

}  // namespace farside::scenario
