// A pool whose servers and clients are killed again and again while they work: what its clients wrote down of it is
// Read Atomic, and every session's writes that were acknowledged are there in the end.
//
// FARSIDE_KV_KILLS=N makes it N times as long, with new seeds.
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"
#include "farside/kv/client.h"

#include "kv/history/read_atomic.h"
#include "kv/history/recorder.h"
#include "tests/support/fleet.h"
#include "tests/support/pool.h"
#include "tests/support/reduced.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kServers = 3;
constexpr unsigned kClients = 4;
constexpr std::uint64_t kKeys = 24;
constexpr std::uint64_t kMaxAtOnce = 4;  // keys of a transaction

/// What a client is at.
struct Work {
  std::atomic<std::uint64_t> session;
  std::atomic<std::int64_t> put;  ///< the transaction whose outcome may not be written down yet; 0: none
};

struct Progress {
  std::atomic<bool> over;
  std::atomic<std::uint64_t> sessions;  ///< so far
  std::atomic<std::uint64_t> values;
  std::atomic<std::uint64_t> acknowledged;  ///< puts
  std::array<Work, kClients> work;
};

std::string key_name(std::uint64_t key) { return "key " + std::to_string(key); }
std::uint64_t number_in(const kv::Got& got) { return got.present ? std::stoull(std::string(got.value)) : 0; }

/// A client as long as it lives: one session after the other, since a client that loses a server begins another.
class Worker {
 public:
  Worker(Progress& progress, unsigned number, const std::string& history, std::uint64_t seed)
      : progress_(progress), work_(progress.work.at(number)), history_(history), dice_(seed) {}

  void run() {
    while (!progress_.over) {
      try {
        kv::Client client;
        while (!progress_.over) run_session(*client.open_session(options()));
      } catch (const Error&) {  // a server is being started again
        std::this_thread::sleep_for(10ms);
      }
    }
  }

 private:
  kv::SessionOptions options() {
    constexpr std::array kWays{kv::ReadWay::ask, kv::ReadWay::addresses, kv::ReadWay::cells};
    constexpr std::array kKinds{kv::SiblingsKind::list, kv::SiblingsKind::filter, kv::SiblingsKind::none};
    return {.way = kWays.at(dice_() % kWays.size()), .siblings = kKinds.at(dice_() % kKinds.size())};
  }

  void run_session(kv::Session& session) {
    work_.session = ++progress_.sessions;
    kv::HistoryRecorder recorder(history_, work_.session);
    bool goes_on = true;
    for (std::int64_t transaction = 1; goes_on && !progress_.over; ++transaction) {
      const std::vector<std::uint64_t> keys = some_keys();
      goes_on =
          dice_() % 2 == 0 ? write(session, recorder, transaction, keys) : read(session, recorder, transaction, keys);
    }
  }

  std::vector<std::uint64_t> some_keys() {
    std::vector<std::uint64_t> keys;
    const std::uint64_t first = dice_() % kKeys;
    for (std::uint64_t i = dice_() % kMaxAtOnce + 1; i != 0; --i) keys.push_back((first + 5 * i) % kKeys);
    return keys;
  }

  bool write(kv::Session& session, kv::HistoryRecorder& recorder, std::int64_t transaction,
             const std::vector<std::uint64_t>& keys) {
    std::vector<std::string> names;
    std::vector<std::string> values;
    work_.put = transaction;
    for (const std::uint64_t key : keys) {
      const std::uint64_t value = ++progress_.values;
      recorder.write(transaction, key, value);
      names.push_back(key_name(key));
      values.push_back(std::to_string(value));
    }
    std::vector<kv::Write> writes;
    for (std::size_t i = 0; i < keys.size(); ++i) writes.push_back({.key = names[i], .value = values[i]});
    const kv::PutOutcome outcome = session.put_all(writes);
    if (outcome == kv::PutOutcome::done) ++progress_.acknowledged;
    if (outcome == kv::PutOutcome::full || outcome == kv::PutOutcome::differs) recorder.aborted(transaction);
    if (outcome == kv::PutOutcome::unknown) recorder.unknown(transaction);
    work_.put = 0;
    return outcome == kv::PutOutcome::done;
  }

  static bool read(kv::Session& session, kv::HistoryRecorder& recorder, std::int64_t transaction,
                   const std::vector<std::uint64_t>& keys) {
    std::vector<std::string> names(keys.size());
    std::ranges::transform(keys, names.begin(), key_name);
    const auto got = session.get_all(std::vector<std::string_view>(names.begin(), names.end()));
    if (!got.done()) return false;
    for (std::size_t i = 0; i < keys.size(); ++i) recorder.read(transaction, keys[i], number_in(got.value[i]));
    return true;
  }

  Progress& progress_;
  Work& work_;
  const std::string history_;
  std::mt19937_64 dice_;
};

class KvKilledPool : public PoolTest {
 protected:
  /// What came of it, when servers have journals, or have not. What is killed when, the seed says; after how many puts,
  /// not after how long.
  std::optional<kv::HistoryAnomaly> run(std::uint64_t seed, bool with_journals) {
    std::vector<std::string> options{"-n", std::to_string(kServers), "--cache", "1M", "--block", "64K", "--kv", "16M"};
    if (with_journals) {
      options.insert(options.end(), {"--kv-dir", runtime_dir().parent_path() / "journals", "--kv-sync", "always"});
    }
    EXPECT_EQ(up(options).code(), 0);
    dice_.seed(seed);
    for (unsigned number = 0; number < kClients; ++number) start_client(number);
    std::uint64_t puts = 0;
    for (int event = 0; event < kEvents; ++event) {
      puts += 20 + dice_() % 80;
      EXPECT_TRUE(eventually([&] { return progress_->acknowledged >= puts; })) << "the store answers no client";
      kill_some();
      puts = std::max<std::uint64_t>(puts, progress_->acknowledged);
    }
    progress_->over = true;
    for (unsigned number = 0; number < kClients; ++number) EXPECT_EQ(clients_[number]->wait(0), 0);
    for (unsigned server = 0; server < kServers; ++server) kill_server(server);
    read_all();
    expect_own_kills_alone();
    std::cout << "seed " << seed << ": " << progress_->acknowledged << " puts acknowledged in " << progress_->sessions
              << " sessions\n";
    return kv::check_read_atomic(kv::read_history(std::vector{history_}));
  }

 private:
  static constexpr int kEvents = 4;

  void start_client(unsigned number) {
    clients_[number] = std::make_unique<Fleet>(
        1, [this, number, seed = dice_()](Member& /*me*/) { Worker(*progress_, number, history_, seed).run(); });
  }

  void kill_some() {
    switch (dice_() % 4) {
      case 0: return kill_client(dice_() % kClients);
      case 1: return kill_server(dice_() % kServers);
      case 2: {
        const auto first = dice_() % kServers;
        kill_server(first);
        return kill_server((first + 1) % kServers);
      }
      default: kill_client(dice_() % kClients); return kill_server(dice_() % kServers);
    }
  }

  /// Another one takes its place. The outcome of its last put is unknown.
  void kill_client(std::uint64_t number) {
    clients_[number]->signal(0, SIGKILL);
    clients_[number]->wait(0);
    Work& work = progress_->work.at(number);
    if (const std::int64_t put = work.put.exchange(0); put != 0) note_unknown(work.session, put);
    start_client(static_cast<unsigned>(number));
  }

  /// Unless it died before it had written down anything of the transaction, or when it knew its outcome.
  void note_unknown(std::uint64_t session, std::int64_t put) {
    std::ifstream file(history_);
    const std::string lines{std::istreambuf_iterator<char>(file), {}};
    const std::string place = std::to_string(session) + "," + std::to_string(put) + ")";
    const auto has = [&lines](const std::string& words) { return lines.find(words) != std::string::npos; };
    if (has("," + place) && !has("a(" + place) && !has("u(" + place))
      kv::HistoryRecorder(history_, session).unknown(put);
  }

  /// When it is up: one that is dead already may not be the process any more that has its number.
  void kill_server(std::uint64_t number) {
    nlohmann::json node;
    ASSERT_TRUE(eventually([&] {
      node = status().at("nodes").at(number);
      return node.at("state") == "up";
    })) << "server "
        << number << " is not there again: " << node;
    ASSERT_EQ(::kill(node.at("process").get<pid_t>(), SIGKILL), 0);
    ++kills_.at(number);
  }

  /// Each server was killed by the test alone. (It may have ended by itself: one that comes back when the last of the
  /// others is killed has no team to come back to.)
  void expect_own_kills_alone() {
    std::string log;
    const auto kills_logged = [&log](unsigned server) {
      const std::string words = "rank " + std::to_string(server) + " was killed by signal ";
      unsigned count = 0;
      for (auto at = log.find(words); at != std::string::npos; at = log.find(words, at + 1)) ++count;
      return count;
    };
    for (unsigned server = 0; server < kServers; ++server) {
      EXPECT_TRUE(eventually([&] {
        std::ifstream file(runtime_dir() / "pool.log");
        log.assign(std::istreambuf_iterator<char>(file), {});
        return kills_logged(server) >= kills_[server];
      }));
      EXPECT_EQ(kills_logged(server), kills_[server]) << "server " << server << ":\n" << log;
    }
  }

  /// As one more transaction of every session that there was: what it wrote is there, or something later.
  void read_all() {
    Fleet(1, [this](Member& /*me*/) {
      std::vector<std::string> names;
      for (std::uint64_t key = 0; key < kKeys; ++key) names.push_back(key_name(key));
      const std::vector<std::string_view> keys(names.begin(), names.end());
      ASSERT_TRUE(eventually([&] { return has_read(keys); }));
    }).expect_success();
  }
  bool has_read(const std::vector<std::string_view>& keys) try {
    constexpr std::int64_t kLast = 1'000'000'000;
    kv::Client client;
    const auto session = client.open_session();
    const auto got = session->get_all(keys);
    if (!got.done()) return false;
    for (std::uint64_t each = 1; each <= progress_->sessions; ++each) {
      kv::HistoryRecorder recorder(history_, each);
      for (std::uint64_t key = 0; key < kKeys; ++key) recorder.read(kLast, key, number_in(got.value[key]));
    }
    return true;
  } catch (const Error&) {
    return false;  // a server is being started again
  }

  std::mt19937_64 dice_;
  const Shared<Progress> progress_;
  std::array<unsigned, kServers> kills_{};
  std::array<std::unique_ptr<Fleet>, kClients> clients_;
  const std::string history_ = runtime_dir().parent_path() / "history.txt";
};

std::uint64_t times_as_long() {
  const char* const times = std::getenv("FARSIDE_KV_KILLS");
  return times == nullptr ? 1 : std::stoull(times);
}

class KvKilledPoolWithJournals : public KvKilledPool, public testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, KvKilledPoolWithJournals, testing::Range<std::uint64_t>(1, 1 + 2 * times_as_long()));

TEST_P(KvKilledPoolWithJournals, KeepsWhatWasAcknowledgedAndShowsNothingInPart) {
  const auto anomaly = run(GetParam(), true);
  if (anomaly) ADD_FAILURE() << kv::name_of(anomaly->kind) << ": " << testing::PrintToString(anomaly->evidence);
}

// The same notices servers that come back empty.
TEST_F(KvKilledPool, WithoutJournalsIsFoundOut) { EXPECT_TRUE(run(1, false)); }

}  // namespace
}  // namespace farside::test
