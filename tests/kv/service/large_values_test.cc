// A pool that keeps two copies of large values, which clients write and erase until servers are full, and go on: no
// standby gives up, and nothing that was acknowledged is lost when a node is killed then.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "farside/kv/client.h"

#include "tests/support/mesh.h"
#include "tests/support/pool.h"

namespace farside::test {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kServers = 3;
constexpr unsigned kClients = 4;
constexpr std::uint64_t kKeysOfEach = 50;
constexpr std::uint64_t kMinBytes = 100'000;
constexpr std::uint64_t kMaxBytes = 3'000'000;
constexpr auto kWork = 30s;

/// A client's values follow from their numbers, which begin at 1.
std::string value_of(std::uint64_t number) {
  std::mt19937_64 random(number);
  std::string value(kMinBytes + random() % (kMaxBytes - kMinBytes + 1), '\0');
  for (std::size_t at = 0; at < value.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(value.data() + at, &word, std::min(sizeof word, value.size() - at));
  }
  return value;
}

/// Works on keys that no other client writes, and knows what must be there.
class Writer {
 public:
  explicit Writer(unsigned client) : client_(client), random_(client + 1) {}

  void work_until(std::chrono::steady_clock::time_point end) {
    while (std::chrono::steady_clock::now() < end) {
      const std::string key = key_of(random_() % kKeysOfEach);
      const bool erases = random_() % 3 == 0;
      const std::uint64_t number = erases ? 0 : ++last_ * kClients + client_;
      note(key, number, erases ? session_->erase(key) : session_->put(key, value_of(number)));
    }
  }
  /// Once more by another session, after something happened.
  void expect_what_was_acknowledged() {
    kv::Client another(options());
    const auto session = another.open_session({.time_out = options().time_out});
    for (std::uint64_t i = 0; i < kKeysOfEach; ++i) {
      const std::string key = key_of(i);
      kv::Got got;
      ASSERT_TRUE(eventually([&] {
        const auto found = session->get(key);
        got = found.value;
        return found.done();
      })) << key;
      const auto is_there = [&](std::uint64_t number) {
        return number == 0 ? !got.present : got.present && got.value == value_of(number);
      };
      EXPECT_TRUE(std::ranges::any_of(may_be_there(key), is_there)) << key;
    }
  }
  /// By outcome, how often.
  [[nodiscard]] std::uint64_t count(kv::PutOutcome outcome) const {
    const auto found = outcomes_.find(outcome);
    return found == outcomes_.end() ? 0 : found->second;
  }

 private:
  static kv::ClientOptions options() {
    kv::ClientOptions options;
    options.time_out = std::chrono::duration_cast<std::chrono::milliseconds>(kTimeout);
    return options;
  }
  [[nodiscard]] std::string key_of(std::uint64_t number) const {
    return "client " + std::to_string(client_) + ", key " + std::to_string(number);
  }
  [[nodiscard]] std::set<std::uint64_t>& may_be_there(const std::string& key) {
    return there_.try_emplace(key, std::set<std::uint64_t>{0}).first->second;
  }
  void note(const std::string& key, std::uint64_t number, kv::PutOutcome outcome) {
    ++outcomes_[outcome];
    if (outcome == kv::PutOutcome::done) may_be_there(key) = {number};
    if (outcome == kv::PutOutcome::unknown) may_be_there(key).insert(number);
  }

  const unsigned client_;
  std::mt19937_64 random_;
  kv::Client of_store_{options()};
  std::unique_ptr<kv::Session> session_ = of_store_.open_session({.time_out = options().time_out});
  std::uint64_t last_ = 0;
  std::map<std::string, std::set<std::uint64_t>> there_;  ///< by key, numbers of values; 0: none
  std::map<kv::PutOutcome, std::uint64_t> outcomes_;
};

class KvLargeValues : public PoolTest {
 protected:
  [[nodiscard]] std::string logged() const {
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(runtime_dir())) {
      if (file.path().extension() != ".log") continue;
      std::ifstream log(file.path());
      all.append(std::istreambuf_iterator<char>(log), {});
    }
    return all;
  }
};

TEST_F(KvLargeValues, AreKeptTwiceWhateverIsWritten) {
  ASSERT_EQ(up({"-n", std::to_string(kServers), "--cache", "8M", "--kv", "24M", "--kv-copies", "2"}).code(), 0);
  std::vector<std::unique_ptr<Writer>> writers;
  for (unsigned client = 0; client < kClients; ++client) writers.push_back(std::make_unique<Writer>(client));
  {
    const auto end = std::chrono::steady_clock::now() + kWork;
    std::vector<std::jthread> threads;
    for (const auto& writer : writers) threads.emplace_back([&writer, end] { writer->work_until(end); });
  }
  std::uint64_t done = 0;
  std::uint64_t full = 0;
  for (const auto& writer : writers) {
    done += writer->count(kv::PutOutcome::done);
    full += writer->count(kv::PutOutcome::full);
  }
  std::cout << done << " writes acknowledged, " << full << " refused: no room\n";
  EXPECT_GT(done, 0);
  const std::string log = logged();
  EXPECT_EQ(log.find("given up"), std::string::npos) << log;
  for (unsigned server = 0; server < kServers; ++server) {
    EXPECT_EQ(status().at("kv").at("servers").at(server).at("copies"), 2) << "server " << server << '\n' << log;
  }
  for (const auto& writer : writers) writer->expect_what_was_acknowledged();
  ASSERT_EQ(::kill(node_processes().at(1), SIGKILL), 0);
  for (const auto& writer : writers) writer->expect_what_was_acknowledged();
}

}  // namespace
}  // namespace farside::test
