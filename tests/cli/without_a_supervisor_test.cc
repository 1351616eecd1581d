// The nodes of a pool whose process of farside up has ended, and the next one that takes them over.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WithoutASupervisor : public PoolTest {
 protected:
  static inline const std::vector<std::string> kOptions{"-n", "2", "--cache", "16M", "--kv", "16M"};
  static constexpr int kKeys = 6;

  void SetUp() override {
    ASSERT_EQ(up(kOptions).code(), 0);
    for (int key = 0; key < kKeys; ++key) ASSERT_EQ(farside({"kv", "put", std::to_string(key), "value"}).code(), 0);
    nodes_ = node_processes();
    supervisor_ = supervisor_process();
  }
  void kill_supervisor() {
    ::kill(supervisor_, SIGKILL);
    EXPECT_TRUE(eventually([this] { return status().at("supervisor").is_null(); }));
  }
  void expect_all_keys() {
    for (int key = 0; key < kKeys; ++key) EXPECT_EQ(farside({"kv", "get", std::to_string(key)}).out, "value");
  }
  void expect_well(const std::vector<std::uint32_t>& restarts) {
    EXPECT_TRUE(eventually([&] { return farside({"status"}).code() == 0; })) << status().dump(2) << log();
    const nlohmann::json after = status();
    for (const auto& node : after.at("nodes")) EXPECT_EQ(node.at("restarts"), restarts.at(node.at("node")));
  }
  void expect_end() {
    EXPECT_EQ(farside({"down"}).code(), 0);
    EXPECT_THAT(pool_processes(), IsEmpty());
    EXPECT_THAT(runtime_files(), IsEmpty());
  }

  std::vector<pid_t> nodes_;
  pid_t supervisor_ = 0;
};

TEST_F(WithoutASupervisor, NodesServeUntilTheNextOneTakesThemOver) {
  kill_supervisor();
  const CommandEnd shown = farside({"status"});
  EXPECT_EQ(shown.code(), 1);
  EXPECT_THAT(shown.out, HasSubstr("the process of farside up has ended on this machine"));
  expect_all_keys();

  ASSERT_EQ(up_again(kOptions).code(), 0);
  EXPECT_THAT(log(), HasSubstr("took over 2 nodes"));
  EXPECT_EQ(node_processes(), nodes_);
  EXPECT_NE(supervisor_process(), supervisor_);
  expect_well({0, 0});
  expect_all_keys();
  ::kill(nodes_.at(1), SIGKILL);  // which is noticed again, and the next process is one of the team
  EXPECT_TRUE(eventually([&] { return status().at("nodes").at(1).at("restarts") == 1; }));
  expect_well({0, 1});
  expect_end();
}

TEST_F(WithoutASupervisor, ANodeThatDiedMeanwhileIsStartedAgain) {
  kill_supervisor();
  ::kill(nodes_.at(0), SIGKILL);
  EXPECT_TRUE(eventually([&] { return status().at("nodes").at(0).at("state") == "dead"; }));
  ASSERT_EQ(up_again(kOptions).code(), 0);
  expect_well({1, 0});
  EXPECT_EQ(node_processes().at(1), nodes_.at(1));
  expect_end();
}

TEST_F(WithoutASupervisor, AllNodesMayHaveDiedAsWell) {
  for (int round = 0; round < 2; ++round) {
    ::kill(supervisor_process(), SIGKILL);
    for (const pid_t node : node_processes()) ::kill(node, SIGKILL);
    EXPECT_TRUE(eventually([&] { return farside({"status"}).code() == 2; }));
    ASSERT_EQ(up_again(kOptions).code(), 0);
    expect_well({0, 0});
  }
  expect_end();
}

// They have their memory, and another secret.
TEST_F(WithoutASupervisor, NodesAreNotThoseOfAPoolWithOtherOptions) {
  kill_supervisor();
  const CommandEnd refused = up_again({"-n", "3", "--cache", "16M", "--kv", "16M"});
  EXPECT_EQ(refused.code(), 1);
  EXPECT_THAT(refused.err, HasSubstr("they have other options: farside "));
  EXPECT_THAT(refused.err, HasSubstr("-n 2"));
  EXPECT_THAT(refused.err, HasSubstr("farside down"));
  expect_all_keys();
  std::filesystem::remove(runtime_dir() / "decisions-here");
  EXPECT_THAT(up_again(kOptions).err, HasSubstr("what the pool had decided is lost"));
  expect_all_keys();
  expect_end();
}

// The lock of the directory is the first one's as long as it lives.
TEST_F(WithoutASupervisor, NodesAreNotTakenFromOneThatHangs) {
  stop(supervisor_);
  const CommandEnd refused = up_again(kOptions);
  EXPECT_EQ(refused.code(), 1);
  EXPECT_THAT(refused.err, HasSubstr("one is running"));
  expect_all_keys();
  ::kill(supervisor_, SIGCONT);
  ::kill(nodes_.at(1), SIGKILL);
  EXPECT_TRUE(eventually([&] { return status().at("nodes").at(1).at("restarts") == 1; }));
  expect_end();
}

TEST_F(WithoutASupervisor, OneOfTwoThatComeAtOnceTakesTheNodesOver) {
  kill_supervisor();
  Command one({FARSIDE_COMMAND, "up", "-n", "2", "--cache", "16M", "--kv", "16M"});
  Command two({FARSIDE_COMMAND, "up", "-n", "2", "--cache", "16M", "--kv", "16M"});
  EXPECT_EQ(one.wait().code() + two.wait().code(), 1) << log();
  EXPECT_EQ(node_processes(), nodes_);
  expect_end();
}

TEST_F(WithoutASupervisor, NodesEndWithThePoolAlthoughOneIsStopped) {
  kill_supervisor();
  stop(nodes_.at(1));
  expect_end();
  EXPECT_EQ(farside({"down"}).code(), 1);
}

// A supervisor that fails to take them over has no right to end them.
TEST_F(WithoutASupervisor, NodesOutliveOneThatFails) {
  kill_supervisor();
  const std::filesystem::path in_the_way = runtime_dir() / "pool.json.new";
  std::filesystem::create_directory(in_the_way);
  const CommandEnd failed = up_again(kOptions);
  EXPECT_EQ(failed.code(), 1);
  EXPECT_THAT(failed.err, HasSubstr("the nodes that ran go on"));
  std::filesystem::remove(in_the_way);
  expect_all_keys();
  ASSERT_EQ(up_again(kOptions).code(), 0);
  EXPECT_EQ(node_processes(), nodes_);
  expect_end();
}

// SIGTERM, as from systemd, ends nodes that it did not start.
TEST_F(WithoutASupervisor, NodesEndWithTheNextOneInTheForeground) {
  kill_supervisor();
  Command next({FARSIDE_COMMAND, "up", "-n", "2", "--cache", "16M", "--kv", "16M", "--foreground"});
  EXPECT_TRUE(eventually([&] { return !status().at("supervisor").is_null(); }));
  expect_well({0, 0});
  ::kill(supervisor_process(), SIGTERM);
  EXPECT_EQ(next.wait().code(), 0);
  EXPECT_THAT(pool_processes(), IsEmpty());
  EXPECT_THAT(runtime_files(), IsEmpty());
}

}  // namespace
}  // namespace farside::test
