// `farside bench far` as a whole, quick.
#include <string>

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
                                    "direct, heap, a node killed: longest pause",
                                    "direct, farside far, a node killed: until mirrored again",
                                    "qsort, 360 MB here (1.67x)", "ua, 360 MB here (1.39x): in, pager"}));
  // That the kernels computed the same in memory and in far memory is seen by the benchmark.
  for (const auto& gap : document["not_measured"]) {  // hosts are made by root alone
    EXPECT_THAT(gap["what"].get<std::string>(), testing::AnyOf("the kernel's swap", "far memory between hosts")) << gap;
  }
}

}  // namespace
}  // namespace farside::bench
