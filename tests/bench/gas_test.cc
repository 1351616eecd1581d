// `farside bench gas` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

TEST(BenchGas, QuickRunMeasuresEveryTable) {
  const nlohmann::json document = quick_run("gas");
  EXPECT_THAT(
      names(document),
      testing::IsSupersetOf({"direct get 8 B p50", "direct put 4 KiB p50", "direct own 512 B p50",
                             "direct fetch_add of 2 ranks p50", "direct gather of 1024 of 4 ranks p50",
                             "direct get of 1 MiB of 4 ranks bandwidth", "direct own with a sharer of 4 ranks p50",
                             "direct own 4 KiB with 1 sharers p50", "ucx/TCP get 4 KiB p50", "ucx/TCP own 4 KiB p50",
                             "ucx/TCP random get of 2 ranks p50"}));
  for (const nlohmann::json& row : document["results"]) EXPECT_GT(row["median"], 0) << row;
}

}  // namespace
}  // namespace farside::bench
