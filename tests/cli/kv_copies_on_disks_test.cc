// A pool with two copies of everything, each on a disk of its own: all nodes may end at once, and what was acknowledged
// is there again; where the copy is missing that may have more, an operator must decide.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/history/read_atomic.h"
#include "kv/protocol/key_id.h"
#include "tests/support/kv_writer.h"
#include "tests/support/mesh.h"
#include "tests/support/pool.h"

namespace farside::test {
namespace {

using namespace kv;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr ServerNumber kNodes = 3;
const auto kWriterTimeout = std::chrono::duration_cast<std::chrono::milliseconds>(kTimeout);

class KvCopiesOnDisks : public PoolTest {
 protected:
  [[nodiscard]] fs::path disk() const { return files_dir() / "disk"; }
  [[nodiscard]] CommandEnd up_with(std::vector<std::string> more = {"--kv-copies", "2"}) {
    std::vector<std::string> arguments{"-n", "3", "--cache", "8M", "--kv", "16M", "--kv-dir", disk()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return up(arguments);
  }
  void put(const std::string& value) {
    for (const std::string& key : keys_) ASSERT_EQ(farside({"kv", "put", key, value}).code(), 0) << key;
  }
  void expect_all_are(const std::string& value) {
    for (const std::string& key : keys_) {
      CommandEnd end{};
      EXPECT_TRUE(eventually([&] {
        end = farside({"kv", "get", key});
        return end.code() == 0;
      })) << end.err;
      EXPECT_TRUE(end.out == value) << key << ": " << end.out.substr(0, 100);
    }
  }
  [[nodiscard]] bool has_two_copies() { return farside({"status"}).code() == 0; }
  void kill_all_nodes() {
    for (const pid_t node : node_processes()) ::kill(node, SIGKILL);
  }

  std::vector<std::string> keys_{"a", "b", "c", "d", "e", "f", "g", "h"};
};

TEST_F(KvCopiesOnDisks, AreThereAgainWhenThePoolIs) {
  for (const char* const policy : {"always", "everysec"}) {
    ASSERT_EQ(up_with({"--kv-copies", "2", "--kv-sync", policy}).code(), 0);
    put(policy);
    EXPECT_EQ(farside({"down"}).code(), 0);
    ASSERT_EQ(up_with({"--kv-copies", "2", "--kv-sync", policy}).code(), 0);
    expect_all_are(policy);
    EXPECT_TRUE(eventually([this] { return has_two_copies(); }));
    EXPECT_EQ(farside({"down"}).code(), 0);
  }
}

TEST_F(KvCopiesOnDisks, SurviveThatAllNodesAreKilledAgainAndAgain) {
  ASSERT_EQ(up_with().code(), 0);
  std::vector<std::string> files;
  for (unsigned round = 0; round < 4; ++round) {
    files.push_back(files_dir() / (std::to_string(round) + ".txt"));
    KvWriter writer(round, files.back(), kWriterTimeout);
    for (std::uint64_t each = 0; each < 100; ++each) writer.act(each);
    EXPECT_TRUE(writer.sees_what_was_acknowledged());
    put(std::to_string(round));
    kill_all_nodes();
    expect_all_are(std::to_string(round));
    EXPECT_TRUE(eventually([this] { return has_two_copies(); }));
  }
  const auto anomaly = check_read_atomic(read_history(files));
  EXPECT_FALSE(anomaly) << name_of(anomaly->kind);
}

// The one that was taught has no whole copy, and the one that taught has it on its disk alone.
TEST_F(KvCopiesOnDisks, SurviveThatAServerIsKilledWhileItMakesACopy) {
  ASSERT_EQ(up_with({"--kv-copies", "2", "--kv-copy-rate", "16K"}).code(), 0);
  for (char key = 'i'; key < 'z'; ++key) keys_.emplace_back(1, key);
  const std::string value(100'000, 'v');
  put(value);
  EXPECT_TRUE(eventually([this] { return has_two_copies(); }));
  ::kill(node_processes().at(1), SIGKILL);
  EXPECT_TRUE(
      eventually([this] { return farside({"status"}).out.find("another is being made (") != std::string::npos; }));
  for (const unsigned node : {0U, 2U}) ::kill(node_processes().at(node), SIGKILL);
  expect_all_are(value);
}

// The pool says which copies there are, and starts with the one that an operator names. (Which of a partition's servers
// ends last when a pool ends is open: the second one may have taken the first one's place.)
TEST_F(KvCopiesOnDisks, AreNotGivenUpUnlessAnOperatorSaysSo) {
  ASSERT_EQ(up_with().code(), 0);
  put("value");
  EXPECT_TRUE(eventually([this] { return has_two_copies(); }));
  EXPECT_EQ(farside({"down"}).code(), 0);
  const CommandEnd table = farside({"kv", "recover", disk()});
  EXPECT_EQ(table.code(), 0) << table.err;
  const bool was_second = table.out.find("     1     2  the standby's") == std::string::npos;
  const fs::path lost = disk() / (was_second ? "server-1-copy-2" : "server-1");
  fs::rename(lost, files_dir() / "away");

  const CommandEnd refused = up_with();
  EXPECT_EQ(refused.code(), 1);
  EXPECT_THAT(refused.err, HasSubstr(was_second ? "its second none" : "its first copy is none"));
  const std::string copy = was_second ? "1" : "2";
  const CommandEnd accepted = farside({"kv", "recover", disk(), "--server", "1", "--copy", copy, "--accept-loss"});
  EXPECT_EQ(accepted.code(), 0) << accepted.err;
  EXPECT_THAT(accepted.out, HasSubstr("server 1 goes on with copy " + copy));
  ASSERT_EQ(up_with().code(), 0);
  expect_all_are("value");
  put("newer");
  EXPECT_TRUE(eventually([this] { return has_two_copies(); }));
  EXPECT_EQ(farside({"down"}).code(), 0);

  // The disk that was given up comes back, and is not believed.
  fs::remove_all(lost);
  fs::rename(files_dir() / "away", lost);
  ASSERT_EQ(up_with().code(), 0);
  expect_all_are("newer");
}

TEST_F(KvCopiesOnDisks, OfServersThatRunAreLeftAlone) {
  ASSERT_EQ(up_with().code(), 0);
  const CommandEnd refused = farside({"kv", "recover", disk(), "--server", "0", "--copy", "1", "--accept-loss"});
  EXPECT_EQ(refused.code(), 1);
  EXPECT_THAT(refused.err, HasSubstr("another server has its journal there"));
}

TEST_F(KvCopiesOnDisks, BeginWithTheJournalOfAPoolThatHadOneCopy) {
  ASSERT_EQ(up_with({}).code(), 0);
  put("value");
  EXPECT_EQ(farside({"down"}).code(), 0);
  ASSERT_EQ(up_with().code(), 0);
  expect_all_are("value");
  EXPECT_TRUE(eventually([this] { return has_two_copies(); }));
  EXPECT_EQ(farside({"down"}).code(), 0);
  const CommandEnd refused = up_with({});
  EXPECT_EQ(refused.code(), 1);
  EXPECT_THAT(refused.err, HasSubstr("it has one of two copies, and the other one may have more"));
}

}  // namespace
}  // namespace farside::test
