// Commands while a node of the pool stands still: each ends by itself, and soon.
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "kv/protocol/key_id.h"
#include "tests/support/pool.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;

class StoppedNode : public PoolTest, public testing::WithParamInterface<unsigned> {
 protected:
  // Longer than the longest of their time limits, those of far memory; a command that waits for the node would stay.
  CommandEnd in_time(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"timeout", "--signal=KILL", "60", FARSIDE_COMMAND});
    return Command(arguments).wait();
  }
  static std::string key_at(kv::ServerNumber server) {
    for (int i = 0;; ++i) {
      std::string key = "key" + std::to_string(i);
      if (kv::server_of(kv::key_id(key), 2) == server) return key;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(, StoppedNode, testing::Values(0U, 1U));

TEST_P(StoppedNode, KeepsNoCommandWaiting) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--kv", "16M", "--far", "64M"}).code(), 0);
  const std::string file = files_dir() / "file";
  std::ofstream(file) << "content";
  stop(node_processes().at(GetParam()));
  const std::string number = std::to_string(GetParam());

  const CommandEnd status = in_time({"status"});
  EXPECT_EQ(status.code(), 1) << status.err;
  EXPECT_THAT(status.out, HasSubstr("node " + number + " is silent"));
  EXPECT_THAT(status.out, HasSubstr("node " + number + " does not answer for far memory"));

  const CommandEnd of_the_other = in_time({"kv", "put", key_at(1 - GetParam()), "value"});
  EXPECT_EQ(of_the_other.code(), 0) << of_the_other.err;
  const CommandEnd of_its_own = in_time({"kv", "get", "--timeout", "1s", key_at(GetParam())});
  EXPECT_EQ(of_its_own.code(), 1);
  EXPECT_THAT(of_its_own.err, HasSubstr("on node " + number + ": it did not answer in time"));

  const CommandEnd far = in_time({"far", "--local", "16M", "--trust-nodes", "--", "true"});
  EXPECT_EQ(far.code(), 0) << far.err;
  for (const char* node : {"0", "1"}) {
    const CommandEnd exec = in_time({"exec", "--node", node, "--under", files_dir(), "--", "cat", file});
    EXPECT_EQ(exec.code(), 0) << exec.err;
    EXPECT_EQ(exec.out, "content");
  }
}

}  // namespace
}  // namespace farside::test
