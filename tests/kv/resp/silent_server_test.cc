// A server of the store that does not answer, in front of the store: who waits for it, and who does not.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "kv/resp/resp_server.h"
#include "net/socket.h"
#include "tests/kv/resp/memory_session.h"
#include "tests/support/shared.h"

namespace farside::kv {
namespace {

using test::eventually;

net::SetupClock::time_point soon() { return net::SetupClock::now() + std::chrono::seconds(60); }

/// Two servers: keys that begin with "b" are the second one's, which may stand still.
class TwoServers final : public test::MemorySession {
 public:
  struct State {
    std::atomic<bool> is_stopped = false;
    std::atomic<bool> keeps_gets = false;  ///< waiting, too
    std::atomic<bool> keeps_all = false;   ///< calls waiting, whatever they need
    std::atomic<int> kept = 0;             ///< calls
  };

  TwoServers(test::MemoryKeys& keys, State& state) : test::MemorySession(keys), state_(state) {}

  [[nodiscard]] std::uint32_t servers() const override { return 2; }
  [[nodiscard]] std::uint32_t server_of(std::string_view key) const override { return key.front() == 'b' ? 1 : 0; }
  [[nodiscard]] std::vector<bool> hear() override { return {true, !state_.is_stopped}; }

  Result<std::span<const Got>> get_all(std::span<const std::string_view> keys) override {
    EXPECT_TRUE(eventually([this] { return !state_.keeps_all; }));
    if (state_.keeps_gets) {
      for (const std::string_view key : keys) wait_for(key);
    }
    return MemorySession::get_all(keys);
  }
  PutOutcome put_all(std::span<const Write> writes) override {
    for (const Write& write : writes) wait_for(write.key);
    return MemorySession::put_all(writes);
  }
  void put_each(std::span<IndependentPut> puts, const PutEnded& ended) override {
    std::vector<std::span<IndependentPut>>
        order;  // known before the first has ended: afterwards its writes may be gone
    for (const std::uint32_t server : {0, 1}) {
      for (IndependentPut& put : puts) {
        if (server_of(put.writes.front().key) == server) order.emplace_back(&put, 1);
      }
    }
    for (const std::span<IndependentPut> put : order) MemorySession::put_each(put, ended);
  }

 private:
  void wait_for(std::string_view key) {
    if (server_of(key) == 0 || !state_.is_stopped) return;
    ++state_.kept;
    EXPECT_TRUE(eventually([this] { return !state_.is_stopped; }));
  }

  State& state_;
};

/// Time passes from one look of the overseer to the next, and no further than it is let.
class TimeOfLooks final : public OverseerClock {
 public:
  [[nodiscard]] Clock::time_point now() const override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  Clock::duration sleep_for(Clock::duration duration) override {
    const std::lock_guard lock(mutex_);
    if (now_ + duration < end_) now_ += duration;
    return std::chrono::milliseconds(1);
  }
  /// After `at_once`, until before `in_all` is over.
  void pass(Clock::duration at_once, Clock::duration in_all) {
    const std::lock_guard lock(mutex_);
    end_ = now_ + in_all;
    now_ += at_once;
  }

 private:
  mutable std::mutex mutex_;
  Clock::time_point now_{std::chrono::hours(1)};
  Clock::time_point end_ = now_;
};

class RespWithASilentServer : public testing::Test {
 protected:
  void start(std::chrono::milliseconds silence_limit, std::unique_ptr<OverseerClock> clock = nullptr) {
    RespSettings settings;
    settings.silence_limit = silence_limit;
    const auto open_session = [this] {
      const int number = ++sessions_;
      EXPECT_TRUE(eventually([&] { return number <= sessions_that_open_; }));
      return std::make_unique<TwoServers>(keys_, state_);
    };
    const int begun = std::min<int>(kSessions, sessions_that_open_ + 1);
    server_.emplace(std::vector<std::string>{"127.0.0.1:0"}, settings, 1, open_session, std::move(clock));
    ASSERT_TRUE(eventually([&] { return sessions_ == begun; }));  // so that another thread may take over
  }
  void TearDown() override {
    sessions_that_open_ = kSessions;
    state_.is_stopped = false;
  }

  Fd connect() { return net::connect_to(server_->listeners().front().address(), soon()); }
  static void send(const Fd& client, const std::string& request) { net::write_all(client, request, soon()); }
  static void expect_reply(const Fd& client, const std::string& reply) {
    EXPECT_EQ(net::read_exactly(client, reply.size(), soon()), reply);
  }
  static void expect(const Fd& client, const std::string& request, const std::string& reply) {
    send(client, request);
    expect_reply(client, reply);
  }
  static bool has_reply(const Fd& client) {
    char byte = 0;
    return ::recv(client.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
  }

  static constexpr std::string_view kSilent =
      "-ERR server 1 of the store, on node 1, does not answer: nothing was done; keys of other servers can be used, "
      "see "
      "farside status\r\n";

  test::MemoryKeys keys_;
  TwoServers::State state_;
  static constexpr int kSessions = 6;  // of the thread, of the overseer, and four spare ones
  std::atomic<int> sessions_ = 0;
  std::atomic<int> sessions_that_open_ = kSessions;  // the others wait in open_session
  std::optional<RespServer> server_;
};

TEST_F(RespWithASilentServer, KeepsOnlyItsOwnClientsWaiting) {
  start(std::chrono::hours(1));
  const Fd healthy = connect();
  const Fd first = connect();
  const Fd second = connect();
  expect(healthy, "SET a 1\r\nSET b 1\r\n", "+OK\r\n+OK\r\n");
  state_.is_stopped = true;
  send(first, "INCR b\r\nINCR a\r\nGET a\r\n");
  ASSERT_TRUE(eventually([this] { return state_.kept == 1; }));
  for (int i = 2; i < 100; ++i) expect(healthy, "INCR a\r\n", ":" + std::to_string(i) + "\r\n");
  send(second, "PING\r\nSET b2 2\r\nGET b2\r\n");
  expect_reply(second, "+PONG\r\n");  // what comes before is answered
  expect(healthy, "GET b\r\nSET a 1\r\n", "$1\r\n1\r\n+OK\r\n");
  EXPECT_EQ(state_.kept, 1) << "a call was made for the second";
  EXPECT_FALSE(has_reply(first) || has_reply(second));
  state_.is_stopped = false;
  expect_reply(first, ":2\r\n:2\r\n$1\r\n2\r\n");
  expect_reply(second, "+OK\r\n$1\r\n2\r\n");
  expect(first, "INCR b\r\n", ":3\r\n");
}

// What it has asked for together with a client that waits is done.
TEST_F(RespWithASilentServer, KeepsNoClientWhoseWritesHaveEnded) {
  auto owned = std::make_unique<TimeOfLooks>();
  TimeOfLooks& clock = *owned;
  start(std::chrono::hours(1), std::move(owned));
  const Fd busy = connect();
  const Fd healthy = connect();
  const Fd kept = connect();
  expect(healthy, "PING\r\n", "+PONG\r\n");
  expect(kept, "PING\r\n", "+PONG\r\n");
  state_.keeps_all = true;
  send(busy, "GET a\r\n");
  send(kept, "SET b 1\r\n");
  send(healthy, "SET a 1\r\n");  // these two find the thread busy, and so are written together
  state_.is_stopped = true;
  state_.keeps_all = false;
  expect_reply(busy, "$-1\r\n");
  ASSERT_TRUE(eventually([this] { return state_.kept == 1; }));
  clock.pass(std::chrono::milliseconds(49), std::chrono::milliseconds(100));
  expect_reply(healthy, "+OK\r\n");
  expect(healthy, "GET a\r\n", "$1\r\n1\r\n");
  EXPECT_FALSE(has_reply(kept));
  state_.is_stopped = false;
  expect_reply(kept, "+OK\r\n");
  expect(kept, "GET b\r\n", "$1\r\n1\r\n");
}

// However the overseer's looks and the beginning of the call lie to each other.
TEST_F(RespWithASilentServer, DelaysOthersLessThanATenthOfASecond) {
  using std::chrono::milliseconds;
  auto owned = std::make_unique<TimeOfLooks>();
  TimeOfLooks& clock = *owned;
  start(std::chrono::hours(1), std::move(owned));
  const Fd healthy = connect();
  int round = 0;
  for (const int look_after_ms : {0, 9, 29, 49}) {
    const Fd kept = connect();
    state_.is_stopped = true;
    send(kept, "INCR b\r\n");
    ASSERT_TRUE(eventually([&] { return state_.kept == round + 1; }));
    clock.pass(milliseconds(look_after_ms), milliseconds(100));
    expect(healthy, "SET a 1\r\n", "+OK\r\n");
    state_.is_stopped = false;
    expect_reply(kept, ":" + std::to_string(++round) + "\r\n");
    expect(healthy, "SET b2 1\r\n", "+OK\r\n");  // once it is known that the server answers again
  }
}

// As it does where another server does not answer either.
TEST_F(RespWithASilentServer, RelievesAThreadWhileASessionIsBeingOpened) {
  auto owned = std::make_unique<TimeOfLooks>();
  TimeOfLooks& clock = *owned;
  sessions_that_open_ = 3;  // one of them spare
  start(std::chrono::hours(1), std::move(owned));
  const Fd healthy = connect();
  const Fd kept = connect();
  state_.is_stopped = true;
  send(kept, "INCR b\r\n");
  ASSERT_TRUE(eventually([this] { return state_.kept == 1; }));
  clock.pass(std::chrono::milliseconds(49), std::chrono::milliseconds(100));
  expect(healthy, "SET a 1\r\n", "+OK\r\n");
  EXPECT_EQ(sessions_, 4) << "more than one session was being opened";
  EXPECT_FALSE(has_reply(kept));
  sessions_that_open_ = kSessions;
  EXPECT_TRUE(eventually([this] { return sessions_ == kSessions; }));
  state_.is_stopped = false;
  expect_reply(kept, ":1\r\n");
}

// And again, when it has answered in between.
TEST_F(RespWithASilentServer, RefusesAtOnceWhatNeedsItAfterAWhile) {
  start(std::chrono::milliseconds(1));
  const Fd client = connect();
  for (int round = 1; round < 4; ++round) {
    const Fd kept = connect();
    state_.is_stopped = true;
    send(kept, "INCR b\r\n");
    ASSERT_TRUE(eventually([&] { return state_.kept == round; }));
    std::string refusals;
    for (int i = 0; i < 100; ++i) refusals += kSilent;
    std::string increments;
    for (int i = 0; i < 100; ++i) increments += "INCR b\r\n";
    expect(client, increments, refusals);
    expect(client, "SET a 1\r\nSET b 1\r\nGET a\r\nMSET a 2 b 2\r\n",
           "+OK\r\n" + std::string(kSilent) + "$1\r\n1\r\n" + std::string(kSilent));
    expect(client, "MULTI\r\nINCR a\r\nINCR b\r\nEXEC\r\nGET a\r\n",
           "+OK\r\n+QUEUED\r\n+QUEUED\r\n" + std::string(kSilent) + "$1\r\n1\r\n");
    expect(client, "DBSIZE\r\n", std::string(kSilent));
    EXPECT_EQ(state_.kept, round);
    state_.is_stopped = false;
    expect_reply(kept, ":" + std::to_string(round) + "\r\n");
    EXPECT_TRUE(eventually([&] {
      send(client, "STRLEN b\r\nDBSIZE\r\n");
      expect_reply(client, ":1\r\n");
      const std::string reply = net::read_exactly(client, 4, soon());
      if (reply == ":2\r\n") return true;
      (void)net::read_exactly(client, kSilent.size() - reply.size(), soon());
      return false;
    }));
  }
}

// A get waits beside a put: neither keeps others.
TEST_F(RespWithASilentServer, KeepsReadsAndWritesApart) {
  start(std::chrono::hours(1));
  const Fd healthy = connect();
  const Fd writer = connect();
  const Fd reader = connect();
  const Fd late = connect();
  state_.is_stopped = true;
  send(writer, "SET b 1\r\n");
  ASSERT_TRUE(eventually([this] { return state_.kept == 1; }));
  expect(healthy, "SET a 1\r\nGET b\r\n", "+OK\r\n$-1\r\n");
  state_.keeps_gets = true;
  send(reader, "GET b2\r\n");
  ASSERT_TRUE(eventually([this] { return state_.kept == 2; }));
  expect(healthy, "SET a 2\r\nGET a\r\n", "+OK\r\n$1\r\n2\r\n");
  send(late, "GET b2\r\n");
  expect(healthy, "GET a\r\n", "$1\r\n2\r\n");
  state_.is_stopped = false;
  expect_reply(writer, "+OK\r\n");
  expect_reply(reader, "$-1\r\n");
  expect_reply(late, "$-1\r\n");
}

TEST_F(RespWithASilentServer, ForgetsClientsThatLeaveMeanwhile) {
  start(std::chrono::hours(1));
  state_.is_stopped = true;
  {
    const Fd kept = connect();
    const Fd held = connect();
    send(kept, "INCR b\r\n");
    ASSERT_TRUE(eventually([this] { return state_.kept == 1; }));
    expect(connect(), "PING\r\n", "+PONG\r\n");
    send(held, "INCR b\r\n");
  }
  const Fd other = connect();
  expect(other, "PING\r\n", "+PONG\r\n");
  state_.is_stopped = false;
  EXPECT_TRUE(eventually([this] { return server_->status().clients == 1; }));
  expect(other, "GET a\r\n", "$-1\r\n");
}

// The server's end waits for the call alone.
TEST_F(RespWithASilentServer, EndsWhileAClientWaits) {
  start(std::chrono::hours(1));
  const Fd kept = connect();
  const Fd held = connect();
  state_.is_stopped = true;
  send(kept, "INCR b\r\n");
  ASSERT_TRUE(eventually([this] { return state_.kept == 1; }));
  expect(connect(), "SET a 1\r\n", "+OK\r\n");
  send(held, "INCR b\r\n");
  state_.is_stopped = false;
  server_.reset();
}

}  // namespace
}  // namespace farside::kv
