// `farside bench kv` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

TEST(BenchKv, QuickRunMeasuresEveryFigure) {
  const nlohmann::json document = quick_run("kv");
  EXPECT_THAT(
      names(document),
      testing::IsSupersetOf(
          {"direct transports", "direct 8 keys", "direct 64 B 100 % reads", "direct 1000 B 100 % reads, GET+/PUT+",
           "direct YCSB F", "direct 2 threads", "direct read, 8 threads p99.9", "direct of 1000 keys", "direct writes",
           "direct get_all and MGET, 4 servers", "direct put_all and MSET, 1 server", "direct 2 servers",
           "direct mset, 16 at once, 1 node", "ucx/TCP transports", "ucx/TCP 8 keys"}));
  for (const nlohmann::json& row : document["results"]) EXPECT_TRUE(row["unit"] != "1/s" || row["median"] > 0) << row;
}

TEST(BenchKv, QuickRunWithFaultsLosesNothing) {
  const nlohmann::json document = quick_run("kv --faults");
  EXPECT_THAT(names(document),
              testing::IsSupersetOf({"direct, a node killed: longest get", "direct, a node killed: longest put",
                                     "direct, a node killed: until there are two copies again",
                                     "direct, a put with two copies", "ucx/TCP, a node killed: longest put"}));
}

}  // namespace
}  // namespace farside::bench
