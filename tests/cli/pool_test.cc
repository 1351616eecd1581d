// What farside up, status and down promise, with real processes.
#include "tests/support/pool.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/fd.h"

#include "tests/support/descriptors.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kSmall{"-n", "2", "--cache", "16M"};

// The inodes of its sockets that are of the Internet's families.
std::vector<std::string> network_sockets(pid_t process) {
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  std::string tables;
  for (const char* table : {"tcp", "tcp6", "udp", "udp6"}) {
    std::ifstream file(folder / "net" / table);
    tables.append(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<std::string> found;
  for (const auto& fd : std::filesystem::directory_iterator(folder / "fd")) {
    const std::string target = std::filesystem::read_symlink(fd.path());
    if (!target.starts_with("socket:[")) continue;
    const std::string inode = target.substr(8, target.size() - 9);
    if (tables.find(" " + inode + " ") != std::string::npos) found.push_back(inode);
  }
  return found;
}

// Processor time that the processes have used so far, in clock ticks.
std::uint64_t used_ticks(const std::vector<pid_t>& processes) {
  std::uint64_t sum = 0;
  for (const pid_t process : processes) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string skipped;
    for (int field = 3; field < 14; ++field) fields >> skipped;
    std::uint64_t user = 0;
    std::uint64_t system = 0;
    fields >> user >> system;
    sum += user + system;
  }
  return sum;
}

TEST_F(PoolTest, IsUpWhenUpReturnsAndLeavesNothingWhenDownDoes) {
  const auto before = shared_memory_files();
  const CommandEnd started = up({"-n", "4", "--cache", "16M"});
  ASSERT_EQ(started.code(), 0) << started.err;
  EXPECT_THAT(started.out, HasSubstr("4 nodes"));
  EXPECT_THAT(started.err, IsEmpty()) << "progress belongs on a terminal only";
  EXPECT_EQ(shared_memory_files(), before);

  const auto nodes = status().at("nodes");
  ASSERT_EQ(nodes.size(), 4U);
  for (const auto& node : nodes) {
    EXPECT_EQ(node.at("state"), "up");
    EXPECT_EQ(node.at("slots"), 16);
    EXPECT_EQ(node.at("blocks"), 0);
  }

  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_THAT(pool_processes(), IsEmpty());
  EXPECT_THAT(runtime_files(), IsEmpty());
  EXPECT_EQ(shared_memory_files(), before);
}

TEST_F(PoolTest, ShowsProgressOnATerminal) {
  if (!has_pseudo_terminals()) GTEST_SKIP() << "there are no pseudo-terminals here";
  Command terminal({"script", "-qec", FARSIDE_COMMAND " up -n 2 --cache 16M", "/dev/null"});
  const CommandEnd end = terminal.wait();
  EXPECT_EQ(end.code(), 0);
  EXPECT_THAT(end.out, HasSubstr("2 of 2 nodes are ready"));
}

// Of UCX's ports SECURITY.md has a lot to say; a pool on one machine needs none, nor any other.
TEST_F(PoolTest, OnOneMachineOpensNoPort) {
  ASSERT_EQ(up(kSmall).code(), 0);
  for (const pid_t process : pool_processes()) EXPECT_THAT(network_sockets(process), IsEmpty());
}

TEST_F(PoolTest, ShowsATableForPeople) {
  ASSERT_EQ(up(kSmall).code(), 0);
  const CommandEnd shown = farside({"status"});
  EXPECT_EQ(shown.code(), 0);
  for (const char* word : {"node", "blocks", "hits", "from peers", "from files", "singlets", "all"}) {
    EXPECT_THAT(shown.out, HasSubstr(word));
  }
}

// The pool is per user and per directory: a second one would take the first one's memory and sockets.
TEST_F(PoolTest, IsNotStartedTwice) {
  ASSERT_EQ(up(kSmall).code(), 0);
  const auto before = node_processes();
  const CommandEnd second = farside({"up"});
  EXPECT_EQ(second.code(), 1);
  EXPECT_THAT(second.err, HasSubstr("one is running"));
  EXPECT_THAT(second.err, HasSubstr("farside down"));
  EXPECT_EQ(node_processes(), before);
}

TEST_F(PoolTest, IsStartedOnceWhenTwoStartAtOnce) {
  Command one({FARSIDE_COMMAND, "up", "--cache", "16M"});
  Command two({FARSIDE_COMMAND, "up", "--cache", "16M"});
  EXPECT_EQ(one.wait().code() + two.wait().code(), 1) << "one succeeds, one is told that it came second";
  EXPECT_EQ(status().at("nodes").at(0).at("state"), "up");
}

// What a job script needs: a pool takes a moment to start, and the record of it is there before its nodes are.
TEST_F(PoolTest, IsWaitedFor) {
  EXPECT_THAT(farside({"status", "--wait", "100ms"}).err, HasSubstr("no pool is running"));
  EXPECT_EQ(farside({"status", "--wait", "soon"}).code(), 2);

  Command starting({FARSIDE_COMMAND, "up", "-n", "3", "--cache", "16M"});
  const CommandEnd waited = farside({"status", "--wait", "60s", "--json"});
  EXPECT_EQ(waited.code(), 0) << waited.err;
  const nlohmann::json seen = nlohmann::json::parse(waited.out);
  for (const auto& node : seen.at("nodes")) EXPECT_EQ(node.at("state"), "up");
  EXPECT_EQ(starting.wait().code(), 0);
  EXPECT_EQ(farside({"down"}).code(), 0);
}

TEST_F(PoolTest, ThatIsNotRunningIsNeitherShownNorEnded) {
  for (const auto& [command, code] : {std::pair{"status", 2}, std::pair{"down", 1}}) {
    const CommandEnd end = farside({command});
    EXPECT_EQ(end.code(), code) << command;
    EXPECT_THAT(end.err, HasSubstr("no pool is running; start one with farside up")) << command;
  }
}

// What a script or a monitor asks: all is well, something is degraded, there is no pool.
TEST_F(PoolTest, TellsByItsStatusWhetherAllIsWell) {
  ASSERT_EQ(up(kSmall).code(), 0);
  EXPECT_TRUE(eventually([&] { return farside({"status"}).code() == 0; }));  // a busy machine's node may be silent
  ::kill(node_processes().at(1), SIGTERM);
  EXPECT_TRUE(eventually([&] { return status().at("nodes").at(1).at("state") == "dead"; }));
  const CommandEnd shown = farside({"status"});
  EXPECT_EQ(shown.code(), 1);
  EXPECT_THAT(shown.out, HasSubstr("problem: node 1 is dead"));
  EXPECT_EQ(status().at("problems"), nlohmann::json({"node 1 is dead"}));
  EXPECT_EQ(farside({"status", "--wait", "100ms"}).code(), 1);
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_EQ(farside({"status"}).code(), 2);
}

// Why a node died is asked after the pool was ended, or started anew.
TEST_F(PoolTest, KeepsItsLogAndThatOfThePoolBefore) {
  ASSERT_EQ(up(kSmall).code(), 0);
  ::kill(node_processes().at(0), SIGKILL);
  const std::string said = "rank 0 was killed by signal 9";
  EXPECT_TRUE(eventually([&] { return log().find(said) != std::string::npos; }));
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_THAT(log(), HasSubstr(said));
  ASSERT_EQ(up(kSmall).code(), 0);
  EXPECT_THAT(log(), ::testing::Not(HasSubstr(said)));
  EXPECT_THAT(log("pool.log.1"), HasSubstr(said));
}

// The supervisor starts it again; the pool's processes know it by its new number.
TEST_F(PoolTest, StartsAKilledNodeAgain) {
  ASSERT_EQ(up({"-n", "3", "--cache", "16M"}).code(), 0);
  const auto before = node_processes();
  ::kill(before.at(1), SIGKILL);
  const auto node = [this](std::size_t rank) { return status().at("nodes").at(rank); };
  EXPECT_TRUE(eventually([&] { return node(1).at("restarts") == 1 && node(1).at("state") == "up"; }));
  EXPECT_NE(node(1).at("process"), before.at(1));
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_EQ(node(rank).at("state"), "up");
    EXPECT_EQ(node(rank).at("restarts"), 0);
    EXPECT_EQ(node(rank).at("process"), before.at(rank));
  }
  EXPECT_THAT(log(), HasSubstr("rank 1 was killed by signal 9 (Killed); it is started again in 100 ms"));
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_THAT(pool_processes(), IsEmpty());
  EXPECT_THAT(runtime_files(), IsEmpty());
}

// A record that cannot be written (a full runtime directory) ends no node; the next one has what it lacked. A third
// node remains: without it the team would begin anew when the second is killed before the first is back. The first may
// meet the second's end and be started twice.
TEST_F(PoolTest, OutlivesARecordThatCannotBeWritten) {
  ASSERT_EQ(up({"-n", "3", "--cache", "16M"}).code(), 0);
  const auto before = node_processes();
  const std::filesystem::path in_the_way = runtime_dir() / "pool.json.new";
  std::filesystem::create_directory(in_the_way);
  ::kill(before.at(0), SIGKILL);
  ASSERT_TRUE(eventually([this] { return log().find("cannot write") != std::string::npos; })) << log();
  EXPECT_EQ(node_processes(), before);
  std::filesystem::remove(in_the_way);
  ::kill(before.at(1), SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const auto nodes = status().at("nodes");
    return std::ranges::all_of(nodes, [](const auto& node) {
      return (node.at("restarts") == 0) == (node.at("node") == 2) && node.at("state") == "up";
    });
  })) << log();
  EXPECT_EQ(farside({"down"}).code(), 0);
}

// The supervisor says so to what started it, such as systemd.
TEST_F(PoolTest, InTheForegroundEndsWithTheCodeOfANodeThatFailedForGood) {
  const std::filesystem::path file = files_dir() / "file";
  std::ofstream(file) << "no directory";
  const CommandEnd end =
      up({"-n", "1", "--cache", "16M", "--kv", "16M", "--kv-dir", file / "journals", "--foreground"});
  EXPECT_EQ(end.code(), 1);
  EXPECT_THAT(end.err, HasSubstr("it has failed too often in a row"));
}

// Also when no node is left that they could come back to.
TEST_F(PoolTest, StartsAllItsNodesAgain) {
  ASSERT_EQ(up(kSmall).code(), 0);
  for (const pid_t node : node_processes()) ::kill(node, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    const auto nodes = status().at("nodes");
    return std::ranges::all_of(nodes,
                               [](const auto& node) { return node.at("restarts") >= 1 && node.at("state") == "up"; });
  }));
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_THAT(pool_processes(), IsEmpty());
}

// A node that was asked to end has not died.
TEST_F(PoolTest, LeavesANodeInPeaceThatWasAskedToEnd) {
  ASSERT_EQ(up({"-n", "3", "--cache", "16M"}).code(), 0);
  ::kill(node_processes().at(1), SIGTERM);
  const auto node = [this] { return status().at("nodes").at(1); };
  EXPECT_TRUE(eventually([&] { return node().at("state") == "dead"; }));
  ::kill(node_processes().at(0), SIGKILL);  // whose restart shows that the supervisor had the time for the other one's
  EXPECT_TRUE(eventually([&] { return status().at("nodes").at(0).at("restarts") >= 1; }));
  EXPECT_EQ(node().at("state"), "dead") << log();
  EXPECT_EQ(node().at("restarts"), 0);
}

// A stopped process takes no polite signal.
TEST_F(PoolTest, EndsAlthoughANodeIsStopped) {
  ASSERT_EQ(up(kSmall).code(), 0);
  stop(node_processes().at(1));
  const auto start = std::chrono::steady_clock::now();
  const CommandEnd ended = farside({"down"});
  EXPECT_EQ(ended.code(), 0) << ended.err;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_THAT(pool_processes(), IsEmpty());
  EXPECT_THAT(runtime_files(), IsEmpty());
}

TEST_F(PoolTest, EndsAlthoughItsSupervisorIsStopped) {
  ASSERT_EQ(up(kSmall).code(), 0);
  stop(supervisor_process());
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_THAT(pool_processes(), IsEmpty());
  EXPECT_THAT(runtime_files(), IsEmpty());
}

// In the foreground messages go where the supervisor's went: to a pipe that has lost its reader, here.
TEST_F(PoolTest, OutlivesTheReaderOfItsMessagesAndItsSupervisor) {
  Command shell({"sh", "-c", FARSIDE_COMMAND " up --foreground -n 2 --cache 16M 2>&1 | true"});
  ASSERT_EQ(farside({"status", "--wait", "60s"}).code(), 0);
  const auto nodes = node_processes();
  ::kill(supervisor_process(), SIGKILL);
  const auto lack_the_coordinator = [&] {
    return status().dump().find("the coordinator, in the process of farside up") != std::string::npos;
  };
  EXPECT_TRUE(eventually(lack_the_coordinator));  // of which they have written
  const nlohmann::json after = status();
  for (const auto& node : after.at("nodes")) EXPECT_EQ(node.at("state"), "up");
  EXPECT_EQ(node_processes(), nodes);
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_THAT(runtime_files(), IsEmpty());
}

TEST_F(PoolTest, StartsAgainAfterEverythingWasKilled) {
  const auto before = shared_memory_files();
  ASSERT_EQ(up(kSmall).code(), 0);
  std::vector<Fd> killed;
  for (const pid_t process : pool_processes()) {
    killed.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    ::kill(process, SIGKILL);
  }
  for (const Fd& process : killed) {  // to its end: without an environment it may still hold its node's lock
    pollfd end{process.get(), POLLIN, 0};
    EXPECT_TRUE(eventually([&end] { return ::poll(&end, 1, 0) == 1; }));
  }
  EXPECT_EQ(shared_memory_files(), before);

  const CommandEnd again = up(kSmall);
  EXPECT_EQ(again.code(), 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("removed what a killed pool had left"));
  EXPECT_EQ(status().at("nodes").at(1).at("state"), "up");
}

// Issue: an idle pool of four nodes uses under 1 % of a core together.
TEST_F(PoolTest, SleepsWhenIdle) {
  ASSERT_EQ(up({"-n", "4", "--cache", "16M"}).code(), 0);
  const auto processes = pool_processes();
  ASSERT_EQ(processes.size(), 5U);
  // A pool that spins, or wakes all the time, never has a quiet while; one that has just started, or that runs under a
  // sanitizer, need not have it at once.
  constexpr std::uint64_t kSeconds = 4;
  const auto ticks_per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  std::uint64_t used = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::uint64_t before = used_ticks(processes);
    std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
    used = used_ticks(processes) - before;
    if (used * 100 <= kSeconds * ticks_per_second) return;
  }
  FAIL() << used << " ticks in " << kSeconds << " s";
}

}  // namespace
}  // namespace farside::test
