// `farside bench comm` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

TEST(BenchComm, QuickRunMeasuresCopiesNoticesAndBarriers) {
  const nlohmann::json document = quick_run("comm");
  EXPECT_THAT(names(document), testing::IsSupersetOf(
                                   {"direct put 8 B p50", "direct put 4 KiB bandwidth", "direct put+signal 512 B p50",
                                    "direct put+count 8 B p50", "direct issue 8 B p50", "direct barrier of 4 ranks p50",
                                    "ucx/TCP put+signal 4 KiB p50", "ucx/TCP begin+wait of 2 ranks p50"}));
  for (const nlohmann::json& row : document["results"]) EXPECT_GT(row["median"], 0) << row;
}

}  // namespace
}  // namespace farside::bench
