// A pool with two copies of everything, a node of which dies while clients read and write: nothing that was
// acknowledged is lost, the history is Read Atomic, and all clients go on.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kv/history/read_atomic.h"
#include "kv/protocol/key_id.h"
#include "tests/support/kv_writer.h"
#include "tests/support/mesh.h"
#include "tests/support/pool.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using namespace kv;
using namespace std::chrono_literals;

constexpr unsigned kClients = 3;
const auto kWriterTimeout = std::chrono::duration_cast<std::chrono::milliseconds>(kTimeout);

class KvCopies : public PoolTest {
 protected:
  /// Of each server's keys; empty: it is not known at the moment.
  std::vector<int> copies() {
    std::vector<int> copies;
    const nlohmann::json kv = status().at("kv");
    for (const auto& server : kv.value("servers", nlohmann::json::array())) copies.push_back(server.at("copies"));
    copies.resize(3);
    return copies;
  }
  [[nodiscard]] std::size_t times_logged(std::string_view text) {
    const std::string all = log();
    std::size_t times = 0;
    for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++times;
    return times;
  }
  /// Clients are at work, `inject_fault` stops or kills a node, and the clients go on for as long again.
  template <class InjectFault>
  void work_while(InjectFault inject_fault) {
    ASSERT_EQ(up({"-n", "3", "--cache", "8M", "--kv", "16M", "--kv-copies", "2"}).code(), 0);
    const pid_t node = node_processes().at(1);
    std::vector<std::unique_ptr<KvWriter>> writers;
    std::vector<std::string> files;
    for (unsigned client = 0; client < kClients; ++client) {
      files.push_back(files_dir() / (std::to_string(client) + ".txt"));
      writers.push_back(std::make_unique<KvWriter>(client, files.back(), kWriterTimeout));
    }
    std::atomic<bool> over = false;
    std::vector<std::jthread> threads;
    threads.reserve(writers.size());
    for (const auto& writer : writers) {
      threads.emplace_back([&over, &writer] {
        for (std::uint64_t round = 0; !over; ++round) writer->act(round);
      });
    }
    const std::uint64_t enough = reduced(500);
    const auto have_all_done = [&](const std::vector<std::uint64_t>& before) {
      for (unsigned client = 0; client < kClients; ++client) {
        if (writers[client]->done() < before[client] + enough) return false;
      }
      return true;
    };
    EXPECT_TRUE(eventually([&] { return have_all_done({0, 0, 0}); }));
    inject_fault(node);
    std::vector<std::uint64_t> before;
    before.reserve(writers.size());
    for (const auto& writer : writers) before.push_back(writer->done());
    EXPECT_TRUE(eventually([&] { return have_all_done(before); }));
    over = true;
    threads.clear();
    std::chrono::milliseconds longest{};
    for (const auto& writer : writers) {
      EXPECT_TRUE(writer->sees_what_was_acknowledged());
      EXPECT_EQ(writer->failed_gets(), 0);
      longest = std::max(longest, writer->longest_wait());
    }
    RecordProperty("longest_wait_ms", static_cast<int>(longest.count()));
    const auto anomaly = check_read_atomic(read_history(files));
    EXPECT_FALSE(anomaly) << name_of(anomaly->kind);
    KvWriter newcomer(kClients, files_dir() / "newcomer.txt", kWriterTimeout);  // new clients are served as well
    for (std::uint64_t round = 0; round < 10; ++round) newcomer.act(round);
    EXPECT_TRUE(newcomer.sees_what_was_acknowledged());
  }
};

TEST_F(KvCopies, SurviveANodeThatIsKilled) {
  work_while([](pid_t node) { ::kill(node, SIGKILL); });
  EXPECT_TRUE(eventually([this] {
    return copies() == std::vector<int>{2, 2, 2};
  })) << "it has copies of servers 0 and 1 now";
  EXPECT_TRUE(eventually([this] { return status().at("nodes").at(1).at("state") == "up"; }));
  EXPECT_NE(log().find("which has the only copy of its keys now"), std::string::npos);
  EXPECT_NE(log().find("the keys of server 0 have two copies again"), std::string::npos);
  EXPECT_NE(log().find("the keys of server 1 have two copies again"), std::string::npos);
  EXPECT_TRUE(eventually([this] { return farside({"status"}).code() == 0; }));
}

// Sessions that were open all the while join each standby, and follow it, from seat to seat.
TEST_F(KvCopies, SurviveOneNodeAfterTheOtherOnceTheyAreMadeAgain) {
  work_while([this](pid_t) {
    std::size_t made_again = 0;
    for (const std::size_t node : {1U, 0U, 1U, 2U, 1U}) {
      ::kill(node_processes().at(node), SIGKILL);
      made_again += 2;
      ASSERT_TRUE(eventually([&] { return times_logged("have two copies again") == made_again; })) << log();
    }
  });
  EXPECT_TRUE(eventually([this] { return copies() == std::vector<int>{2, 2, 2}; })) << log();
}

// While the node stands still, its standby is not promoted, since the node might go on.
TEST_F(KvCopies, SurviveANodeThatIsStoppedAndThenKilled) {
  work_while([](pid_t node) {
    stop(node);
    std::this_thread::sleep_for(300ms);
    ::kill(node, SIGKILL);
  });
}

// Healing is slow enough here to be seen: `status` says how far it is.
TEST_F(KvCopies, AreRequiredForWritesWhereThePoolSaysSo) {
  ASSERT_EQ(up({"-n", "3", "--cache", "8M", "--kv", "16M", "--kv-copies", "2", "--kv-min-copies", "2", "--kv-copy-rate",
                "128K"})
                .code(),
            0);
  const std::string value(60'000, 'v');
  std::vector<std::string> keys;
  for (int i = 0; i < 30; ++i) keys.push_back("key " + std::to_string(i));
  for (const std::string& key : keys) ASSERT_EQ(farside({"kv", "put", key, value}).code(), 0);
  ::kill(node_processes().at(1), SIGKILL);
  const auto of_lost =
      std::ranges::find_if(keys, [](const std::string& key) { return server_of(key_id(key), 3) == 1; });
  ASSERT_NE(of_lost, keys.end());
  EXPECT_TRUE(eventually([&] {
    return farside({"kv", "put", *of_lost, "x"}).err.find("a server has one copy") != std::string::npos;
  }));
  EXPECT_EQ(farside({"kv", "get", *of_lost}).code(), 0);
  EXPECT_TRUE(eventually([this] {
    const CommandEnd status = farside({"status"});
    return status.code() == 1 && status.out.find("another is being made (") != std::string::npos;
  }));
  EXPECT_TRUE(eventually([&] { return farside({"kv", "put", *of_lost, "y"}).code() == 0; }));
  EXPECT_TRUE(eventually([this] { return farside({"status"}).code() == 0; }));
}

// A part that is lost is no time-out: what is said names it, and `status` ends with 1.
TEST_F(KvCopies, SayWhichPartIsLost) {
  // Another copy is not whole before the second node is killed, however slow this test is.
  ASSERT_EQ(up({"-n", "3", "--cache", "8M", "--kv", "16M", "--kv-copies", "2", "--kv-copy-rate", "16K"}).code(), 0);
  constexpr ServerNumber kLost = 1;
  std::string key;
  int keys = 0;
  for (int i = 0; keys < 8; ++i) {
    const std::string each = "key " + std::to_string(i);
    if (server_of(key_id(each), 3) != kLost) continue;
    key = each;
    ++keys;
    ASSERT_EQ(farside({"kv", "put", each, std::string(100'000, 'v')}).code(), 0);
  }
  const std::vector<pid_t> nodes = node_processes();
  stop(nodes.at(kLost));
  const CommandEnd late = farside({"kv", "get", key, "--timeout", "2s"});
  EXPECT_EQ(late.code(), 1);
  EXPECT_NE(late.err.find("did not answer in time"), std::string::npos) << late.err;
  EXPECT_EQ(late.err.find("lost"), std::string::npos) << late.err;
  ::kill(nodes.at(kLost), SIGKILL);
  EXPECT_TRUE(eventually([&] { return farside({"kv", "get", key}).code() == 0; })) << "its standby serves";
  ::kill(nodes.at(kLost + 1), SIGKILL);
  CommandEnd said{};
  EXPECT_TRUE(eventually([&] {
    said = farside({"status"});
    return said.out.find("no copy answers of server 1 (on the node of the same number)") != std::string::npos;
  })) << said.out;
  EXPECT_EQ(said.code(), 1);
  CommandEnd get{};
  EXPECT_TRUE(eventually([&] {
    get = farside({"kv", "get", key});
    return get.err.find("it is lost") != std::string::npos;
  })) << get.err;
  EXPECT_NE(get.err.find("server 1 of the key-value store, on node 1"), std::string::npos) << get.err;
  EXPECT_EQ(get.err.find("in time"), std::string::npos) << get.err;
}

TEST_F(KvCopies, EndAsOtherPoolsDo) {
  ASSERT_EQ(up({"-n", "3", "--cache", "8M", "--kv", "16M", "--kv-copies", "2"}).code(), 0);
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_TRUE(runtime_files().empty());  // no node failed, so not even the record is left
}

TEST_F(KvCopies, NeedTwoNodes) {
  const CommandEnd alone = up({"-n", "1", "--kv", "16M", "--kv-copies", "2"});
  EXPECT_EQ(alone.code(), 2);
  EXPECT_NE(alone.err.find("must be on different nodes"), std::string::npos) << alone.err;
  EXPECT_EQ(up({"-n", "2", "--kv", "16M", "--kv-copies", "1", "--kv-min-copies", "2"}).code(), 2);
}

}  // namespace
}  // namespace farside::test
