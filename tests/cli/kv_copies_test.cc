// A pool with two copies of everything, a node of which dies while clients read and write: nothing that was
// acknowledged is lost, the history is Read Atomic, and everybody goes on.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "farside/kv/client.h"

#include "kv/history/read_atomic.h"
#include "kv/history/recorder.h"
#include "tests/support/mesh.h"
#include "tests/support/pool.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using namespace kv;
using namespace std::chrono_literals;

constexpr unsigned kClients = 3;
constexpr std::uint64_t kSharedKeys = 10;

/// One client: each put writes two keys that all write and one of its own, the same number to all of them.
class Writer {
 public:
  Writer(unsigned number, const std::string& file)
      : number_(number), session_(client_.open_session(options(number))), recorder_(file, number) {}

  void act(std::uint64_t round) {
    const std::uint64_t first = (round * 7 + number_) % kSharedKeys;
    const std::vector<std::uint64_t> keys{first, (first + 1 + round % 3) % kSharedKeys, own()};
    if (round % 2 == 0) {
      put(keys, round + 1);
    } else {
      (void)get(keys);
    }
  }
  void look_at_all() {
    std::vector<std::uint64_t> keys{own()};
    for (std::uint64_t key = 0; key < kSharedKeys; ++key) keys.push_back(key);
    const auto found = get(keys);
    ASSERT_EQ(found.size(), keys.size());
    EXPECT_GE(found.front(), acknowledged_);
  }
  [[nodiscard]] std::uint64_t done() const { return done_.load(); }
  [[nodiscard]] std::chrono::milliseconds longest_wait() const { return longest_wait_; }

 private:
  static SessionOptions options(unsigned number) {
    SessionOptions options;
    options.way = static_cast<ReadWay>(number % 3);
    options.time_out = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
    return options;
  }
  [[nodiscard]] std::uint64_t own() const { return kSharedKeys + number_; }
  static std::string name(std::uint64_t key) { return "key " + std::to_string(key); }

  template <class Call>
  auto timed(Call call) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = call();
    const auto took = std::chrono::steady_clock::now() - begin;
    longest_wait_ = std::max(longest_wait_, std::chrono::duration_cast<std::chrono::milliseconds>(took));
    return result;
  }
  void put(const std::vector<std::uint64_t>& keys, std::uint64_t round) {
    const std::uint64_t number = round * (kClients + 1) + number_;  // never another's
    const std::string value = std::to_string(number);
    std::vector<std::string> names;
    std::vector<Write> writes;
    names.reserve(keys.size());
    writes.reserve(keys.size());
    for (const std::uint64_t key : keys) names.push_back(name(key));
    for (const std::string& each : names) writes.push_back({.key = each, .value = value});
    const std::int64_t transaction = ++transaction_;
    for (const std::uint64_t key : keys) recorder_.write(transaction, key, number);
    const auto outcome = timed([&] { return session_->put_all(writes); });
    if (outcome == PutOutcome::done) {
      acknowledged_ = number;
      ++done_;
    } else if (outcome == PutOutcome::unknown) {
      recorder_.unknown(transaction);
    } else {
      recorder_.aborted(transaction);
    }
  }
  std::vector<std::uint64_t> get(const std::vector<std::uint64_t>& keys) {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const std::uint64_t key : keys) names.push_back(name(key));
    const std::vector<std::string_view> views(names.begin(), names.end());
    std::vector<Got> got;
    const Outcome outcome = timed([&] { return session_->get_all(views, got); });
    EXPECT_EQ(outcome, Outcome::done);
    if (outcome != Outcome::done) return {};
    const std::int64_t transaction = ++transaction_;
    std::vector<std::uint64_t> found;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      found.push_back(got[i].present ? std::stoull(std::string(got[i].value)) : 0);
      recorder_.read(transaction, keys[i], found.back());
    }
    ++done_;
    return found;
  }
  const unsigned number_;
  Client client_;
  std::unique_ptr<kv::Session> session_;
  HistoryRecorder recorder_;
  std::int64_t transaction_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  std::chrono::milliseconds longest_wait_{};
};

class KvCopies : public PoolTest {
 protected:
  /// Clients are at work, `befall` happens to a node, and they go on for as long again.
  template <class Befall>
  void work_while(Befall befall) {
    ASSERT_EQ(up({"-n", "3", "--cache", "8M", "--kv", "16M", "--kv-copies", "2"}).code(), 0);
    const pid_t node = node_processes().at(1);
    std::vector<std::unique_ptr<Writer>> writers;
    std::vector<std::string> files;
    for (unsigned client = 0; client < kClients; ++client) {
      files.push_back(files_dir() / (std::to_string(client) + ".txt"));
      writers.push_back(std::make_unique<Writer>(client, files.back()));
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
    befall(node);
    std::vector<std::uint64_t> before;
    before.reserve(writers.size());
    for (const auto& writer : writers) before.push_back(writer->done());
    EXPECT_TRUE(eventually([&] { return have_all_done(before); }));
    over = true;
    threads.clear();
    std::chrono::milliseconds longest{};
    for (const auto& writer : writers) {
      writer->look_at_all();
      longest = std::max(longest, writer->longest_wait());
    }
    RecordProperty("longest_wait_ms", static_cast<int>(longest.count()));
    const auto anomaly = check_read_atomic(read_history(files));
    EXPECT_FALSE(anomaly) << name_of(anomaly->kind);
    Writer newcomer(kClients, files_dir() / "newcomer.txt");  // whoever comes now is served as well
    for (std::uint64_t round = 0; round < 10; ++round) newcomer.act(round);
    newcomer.look_at_all();
  }
};

TEST_F(KvCopies, SurviveANodeThatIsKilled) {
  work_while([](pid_t node) { ::kill(node, SIGKILL); });
  const auto servers = status().at("kv").at("servers");
  EXPECT_EQ(servers.at(0).at("copies"), 1);  // whose standby it had
  EXPECT_EQ(servers.at(1).at("copies"), 1);
  EXPECT_EQ(servers.at(2).at("copies"), 2);
}

// While it stands still nobody takes its place, since it might go on.
TEST_F(KvCopies, SurviveANodeThatIsStoppedAndThenKilled) {
  work_while([](pid_t node) {
    stop(node);
    std::this_thread::sleep_for(300ms);
    ::kill(node, SIGKILL);
  });
}

TEST_F(KvCopies, EndAsOtherPoolsDo) {
  ASSERT_EQ(up({"-n", "3", "--cache", "8M", "--kv", "16M", "--kv-copies", "2"}).code(), 0);
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_TRUE(runtime_files().empty());  // nobody failed, so not even the log is left
}

TEST_F(KvCopies, NeedTwoNodesAndOneMachine) {
  const CommandEnd alone = up({"-n", "1", "--kv", "16M", "--kv-copies", "2"});
  EXPECT_EQ(alone.code(), 2);
  EXPECT_NE(alone.err.find("must be on different nodes"), std::string::npos) << alone.err;
  EXPECT_EQ(up({"-n", "2", "--kv", "16M", "--kv-copies", "2", "--kv-dir", "x"}).code(), 2);
}

}  // namespace
}  // namespace farside::test
