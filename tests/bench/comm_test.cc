// `farside bench comm` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

TEST(BenchComm, QuickRunMeasuresEveryTable) {
  const nlohmann::json document = quick_run("comm");
  EXPECT_THAT(
      names(document),
      testing::IsSupersetOf(
          {"direct put 8 B p50", "direct put 4 KiB bandwidth", "direct put+signal 512 B p50", "direct put+count N1/2",
           "direct issue 8 B p50", "direct fetch_add p50", "direct put and signal, one way p50",
           "direct computation and barriers of 2 ranks p50", "direct barrier of 4 ranks p50",
           "direct phase of 4 ranks p50", "direct all_reduce 512 B of 4 ranks p50", "ucx/TCP put+signal 4 KiB p50",
           "ucx/TCP begin+wait of 2 ranks p50", "copy by 2 threads bandwidth", "one node, barrier of 3 p50"}));
  for (const nlohmann::json& row : document["results"]) EXPECT_GT(row["median"], 0) << row;
}

}  // namespace
}  // namespace farside::bench
