// `farside bench far` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

TEST(BenchFar, QuickRunMeasuresEverySize) {
  const nlohmann::json document = quick_run("far");
  EXPECT_THAT(
      names(document),
      testing::IsSupersetOf({"direct random read of 4 KiB p50", "direct random write of 4 MiB bandwidth",
                             "direct random read of 2 MiB, device bandwidth", "ucx/TCP random read of 4 KiB p50"}));
  EXPECT_TRUE(document["not_measured"].empty()) << document["not_measured"];
}

}  // namespace
}  // namespace farside::bench
