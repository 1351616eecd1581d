// `farside bench base` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

TEST(BenchBase, QuickRunMeasuresEveryIncrement) {
  const nlohmann::json document = quick_run("base");
  EXPECT_THAT(names(document), testing::UnorderedElementsAre("counter, 1 thread", "counter, 2 threads",
                                                             "histogram, 1 thread", "histogram, 2 threads"));
  for (const nlohmann::json& row : document["results"]) EXPECT_GT(row["median"], 0) << row;
}

}  // namespace
}  // namespace farside::bench
