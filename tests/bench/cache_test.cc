// `farside bench cache` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

// Every part runs, each on a pool of its own. Two nodes of one group that read a file at once ask for it once between
// them, two plain programs twice: the kernel counted both, so that a benchmark which goes around the pool cannot pass.
TEST(BenchCache, QuickRunMeasuresHitsAndCountsWhatWasAskedFor) {
  const nlohmann::json document = quick_run("cache");
  const std::string scan = "2 nodes, 1 group, one file of 16 MiB: asked of the file system";
  EXPECT_THAT(names(document),
              testing::IsSupersetOf({"own node pread 4 KiB of 1 MiB p50", "own node read 1 MiB of 8 MiB bandwidth",
                                     "peer over direct, first read of 1 MiB p50",
                                     "start of a program that reads nothing p50", scan.c_str()}));
  EXPECT_TRUE(document["not_measured"].empty()) << document["not_measured"];
  for (const nlohmann::json& row : document["results"]) {
    if (row["name"] != scan) continue;
    EXPECT_NEAR(row["median"], 1, 0.02);
    EXPECT_NEAR(row["baseline_median"], 2, 0.02);
  }
}

}  // namespace
}  // namespace farside::bench
