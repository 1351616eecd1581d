// `farside bench arrays` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

TEST(BenchArrays, QuickRunMeasuresEveryTable) {
  const nlohmann::json document = quick_run("arrays");
  EXPECT_THAT(names(document),
              testing::IsSupersetOf({"expression of 10000 doubles p50", "sum of 10000 doubles p50",
                                     "direct cshift 64x64 of 2 ranks p50", "direct laplace 64x64 of 2 ranks p50",
                                     "ucx/TCP laplace 64x64 of 2 ranks p50"}));
  for (const nlohmann::json& row : document["results"]) EXPECT_GT(row["median"], 0) << row;
}

}  // namespace
}  // namespace farside::bench
