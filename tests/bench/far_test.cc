// `farside bench far` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

TEST(BenchFar, QuickRunMeasuresEverySize) {
  const nlohmann::json document = quick_run("far");
  EXPECT_THAT(names(document), testing::IsSupersetOf(
                                   {"direct random read of 4 KiB p50", "direct random write of 4 MiB bandwidth",
                                    "direct random read of 2 MiB, device bandwidth", "ucx/TCP random read of 4 KiB p50",
                                    "direct fault p50", "ucx/TCP pages read in order, with room", "reread, 100 MB here",
                                    "qsort, 360 MB here (1.67x)", "ua, 360 MB here (1.39x): in, pager"}));
  // That the kernels computed the same in memory and in far memory is seen by the benchmark.
  ASSERT_EQ(document["not_measured"].size(), 1U) << document["not_measured"];
  EXPECT_EQ(document["not_measured"][0]["what"], "the kernel's swap");
}

}  // namespace
}  // namespace farside::bench
