// The cache on the harshest network there is.
#include <cstdlib>

#include <gtest/gtest.h>

#include "scenario/cache_scenario.h"

namespace farside::sim {
namespace {

std::uint64_t seeds() {
  const char* const wanted = std::getenv("FARSIDE_SIM_SEEDS");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 2000;
}

TEST(CacheSim, KeepsItsPromisesUnderEverySeed) {
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    const CacheResult result = run_cache_scenario(seed, random_cache_scenario(seed));
    ASSERT_FALSE(result.violation) << "seed " << seed << ": " << *result.violation;
  }
}

// The seed on which a broken rule is noticed, of the first thousand; 0 when it is not.
std::uint64_t caught(const CacheRules& rules) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    CacheScenario scenario = random_cache_scenario(seed);
    scenario.rules = rules;
    if (run_cache_scenario(seed, scenario).violation) return seed;
  }
  return 0;
}

// A canary: when even this passes, the harness sees nothing.
TEST(CacheSim, CatchesACopyThatComparesNothing) {
  EXPECT_NE(caught({.compares_ids = false, .compares_tokens = false, .compares_keys = false}), 0u);
}

// The slot was recycled between the look into the directory and the first READ (the paper's second case).
TEST(CacheSim, CatchesACopyThatComparesTokensOnly) {
  EXPECT_NE(caught({.compares_ids = false, .compares_keys = false}), 0u);
}

TEST(CacheSim, CatchesACopyWithoutTheSecondHeader) { EXPECT_NE(caught({.reads_header_again = false}), 0u); }

TEST(CacheSim, CatchesATokenAheadOfItsBytes) { EXPECT_NE(caught({.token_follows_bytes = false}), 0u); }

TEST(CacheSim, CatchesACellThatIsOverwrittenInsteadOfExchanged) {
  EXPECT_NE(caught({.cells_are_exchanged = false}), 0u);
}

TEST(CacheSim, CatchesACellAheadOfItsBytes) { EXPECT_NE(caught({.cell_follows_bytes = false}), 0u); }

TEST(CacheSim, CatchesALeaseThatNeverExpires) { EXPECT_NE(caught({.lease_expires = false}), 0u); }

TEST(CacheSim, RepeatsARunExactly) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const CacheScenario scenario = random_cache_scenario(seed);
    EXPECT_EQ(run_cache_scenario(seed, scenario).hash, run_cache_scenario(seed, scenario).hash) << seed;
  }
}

}  // namespace
}  // namespace farside::sim
