// Three servers, and clients that stop at every step of a put: whatever was done by then, all servers come to the same
// end of it, and no server waits for another.
#include "kv/server/terminator.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "tests/kv/service/local_servers.h"

namespace farside::kv {
namespace {

constexpr ServerNumber kServers = 3;
constexpr Duration kTimeout = std::chrono::milliseconds(1);
constexpr Timestamp kTransaction{100, 7};

/// Asks by calls, when the test has requests delivered.
class SlowRequests final : public Requests {
 public:
  explicit SlowRequests(LocalServers& servers) : servers_(servers), sent_(kServers), replies_(kServers) {}

  void deliver() {
    for (ServerNumber server = 0; server < kServers; ++server) {
      for (const Message& each : std::exchange(sent_[server], {})) {
        replies_[server].push_back(servers_.handler(server).answer(each));
      }
    }
  }
  void lose(ServerNumber server) { lost_.insert(server); }
  void find_again(ServerNumber server) { lost_.erase(server); }

  [[nodiscard]] ServerNumber servers() const override { return kServers; }
  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline /*deadline*/) override {
    if (lost_.contains(server)) return Outcome::peer_lost;
    sent_.at(server).emplace_back(request.begin(), request.end());
    return Outcome::done;
  }
  Result<Message> receive(ServerNumber server, Deadline /*deadline*/) override {
    if (lost_.contains(server)) return {Outcome::peer_lost, {}};
    if (replies_.at(server).empty()) {
      sent_.at(server).clear();  // it will not be shown any more
      return {Outcome::timed_out, {}};
    }
    Message reply = std::move(replies_.at(server).front());
    replies_.at(server).pop_front();
    return {Outcome::done, std::move(reply)};
  }
  [[nodiscard]] bool has_reply(ServerNumber server) override {
    return lost_.contains(server) || !replies_.at(server).empty();
  }

 private:
  LocalServers& servers_;
  std::vector<std::vector<Message>> sent_;
  std::vector<std::deque<Message>> replies_;
  std::set<ServerNumber> lost_;
};

class KvTerminator : public testing::Test {
 protected:
  KvTerminator() {
    for (ServerNumber server = 0; server < kServers; ++server) {
      keys_[server] = key_of_server(server, kServers);
      requests_.push_back(std::make_unique<SlowRequests>(servers_));
      terminators_.push_back(std::make_unique<Terminator>(servers_.fabric(), servers_.logged(server), *requests_.back(),
                                                          server, kTimeout));
    }
  }

  Store& store(ServerNumber server) { return servers_.store_of(keys_.at(server)); }
  Answer prepare(ServerNumber server, const Timestamp& timestamp = kTransaction,
                 const std::vector<ServerNumber>& servers = {0, 1, 2}) {
    const Write write{.key = keys_.at(server), .value = "value"};
    return store(server).prepare({timestamp, {}, servers, {&write, 1}}).answer;
  }
  [[nodiscard]] bool is_prepared(ServerNumber server) {
    return !store(server).undecided(servers_.fabric().in(std::chrono::hours(1)).at).empty();
  }
  [[nodiscard]] bool is_committed(ServerNumber server) {
    const auto newest = store(server).newest(keys_.at(server));
    return newest && newest->timestamp == kTransaction;
  }
  [[nodiscard]] bool nothing_is_prepared() { return !is_prepared(0) && !is_prepared(1) && !is_prepared(2); }

  /// Has all servers work until `holds`. False when it never does.
  template <class Predicate>
  bool work_until(Predicate holds, const std::function<void()>& between) {
    const Deadline deadline = servers_.soon();
    while (!holds() && servers_.fabric().now() < deadline.at) {
      for (const auto& terminator : terminators_) (void)terminator->step();
      between();
      servers_.fabric().sleep(kTimeout / 4);
    }
    return holds();
  }
  bool end_all() {
    return work_until([this] { return nothing_is_prepared(); }, [this] { deliver(); });
  }
  void deliver() {
    for (const auto& requests : requests_) requests->deliver();
  }
  /// As clients ask server 0, with a part of `bytes`.
  Answer ask_to_prepare(std::uint64_t time, const std::vector<ServerNumber>& servers, std::size_t bytes = 1) {
    const std::string value(bytes, 'v');
    Request request;
    request.kind = RequestKind::prepare;
    request.timestamp = {time, 8};
    request.servers = servers;
    request.writes = {{.key = keys_[0], .value = value}};
    return servers_.logged(0).carry_out(request, {}).answer;
  }

  LocalServers servers_{kServers};
  std::array<std::string, kServers> keys_;  // one of each server
  std::vector<std::unique_ptr<SlowRequests>> requests_;
  std::vector<std::unique_ptr<Terminator>> terminators_;
};

// Each test has its own servers, so one for each number of servers that the client came to.
class KvTerminatorAfter : public KvTerminator, public testing::WithParamInterface<ServerNumber> {};

// Those that have it are told so by one that has not, and that one never has it.
TEST_P(KvTerminatorAfter, AbortsWhatIsNotPreparedEverywhere) {
  const ServerNumber prepared = GetParam();
  for (ServerNumber server = 0; server < prepared; ++server) ASSERT_EQ(prepare(server), Answer::done);
  ASSERT_TRUE(end_all());
  for (ServerNumber server = 0; server < kServers; ++server) {
    EXPECT_FALSE(is_committed(server));
    EXPECT_NE(store(server).commit(kTransaction).answer, Answer::done);
  }
  EXPECT_EQ(prepare(prepared), Answer::barred);  // the client was only slow
}

// The client may have told another process that its put has returned, or have committed nowhere.
TEST_P(KvTerminatorAfter, CommitsWhatIsPreparedEverywhere) {
  const ServerNumber committed = GetParam();
  for (ServerNumber server = 0; server < kServers; ++server) ASSERT_EQ(prepare(server), Answer::done);
  for (ServerNumber server = 0; server < committed; ++server) {
    ASSERT_EQ(store(server).commit(kTransaction).answer, Answer::done);
  }
  ASSERT_TRUE(end_all());
  for (ServerNumber server = 0; server < kServers; ++server) EXPECT_TRUE(is_committed(server));
}

INSTANTIATE_TEST_SUITE_P(Servers, KvTerminatorAfter, testing::Values(1, 2));

TEST_F(KvTerminator, CommitsWhatIsPreparedEverywhereAndCommittedNowhere) {
  for (ServerNumber server = 0; server < kServers; ++server) ASSERT_EQ(prepare(server), Answer::done);
  ASSERT_TRUE(end_all());
  for (ServerNumber server = 0; server < kServers; ++server) EXPECT_TRUE(is_committed(server));
}

// A server that has refused it says the same to the other servers as to the client.
TEST_F(KvTerminator, AbortsWhatWasRefused) {
  const Timestamp newer{kTransaction.time + 1, 8};
  ASSERT_EQ(store(2).put(newer, {.key = keys_[2], .value = "newer"}).answer, Answer::done);
  ASSERT_EQ(prepare(0), Answer::done);
  ASSERT_EQ(prepare(1), Answer::done);
  ASSERT_EQ(prepare(2), Answer::behind);
  ASSERT_TRUE(end_all());
  EXPECT_FALSE(is_committed(0));
  EXPECT_FALSE(is_committed(1));
}

// Each has asked the others before any has answered; no step waits.
TEST_F(KvTerminator, LetsServersAskEachOtherAtOnce) {
  for (ServerNumber server = 0; server < kServers; ++server) ASSERT_EQ(prepare(server), Answer::done);
  servers_.fabric().sleep(2 * kTimeout);
  for (const auto& terminator : terminators_) EXPECT_FALSE(terminator->step());
  EXPECT_TRUE(is_prepared(0) && is_prepared(1) && is_prepared(2));
  ASSERT_TRUE(end_all());
  for (ServerNumber server = 0; server < kServers; ++server) EXPECT_TRUE(is_committed(server));
}

// As long as one server is away no server can know the outcome, and as soon as it is back all servers do.
TEST_F(KvTerminator, WaitsForAServerThatIsAway) {
  for (ServerNumber server = 0; server < kServers; ++server) ASSERT_EQ(prepare(server), Answer::done);
  for (const auto& requests : requests_) requests->lose(2);
  for (int i = 0; i < 20; ++i) {
    servers_.fabric().sleep(kTimeout / 4);
    for (const ServerNumber server : {0U, 1U}) (void)terminators_[server]->step();
    deliver();
  }
  EXPECT_TRUE(is_prepared(0) && is_prepared(1));
  for (const auto& requests : requests_) requests->find_again(2);
  ASSERT_TRUE(end_all());
  for (ServerNumber server = 0; server < kServers; ++server) EXPECT_TRUE(is_committed(server));
}

// An answer may be lost, and the question is asked again.
TEST_F(KvTerminator, AsksAgainWhenNoAnswerComes) {
  for (ServerNumber server = 0; server < kServers; ++server) ASSERT_EQ(prepare(server), Answer::done);
  int rounds = 0;
  ASSERT_TRUE(work_until([this] { return nothing_is_prepared(); },
                         [&] {
                           if (++rounds > 20) deliver();
                         }));
}

// The client names the servers that have part in its transaction, and may name any number.
TEST_F(KvTerminator, AsksNoServerThatDoesNotExist) {
  ASSERT_EQ(prepare(0, kTransaction, {0, 0, kServers, ~ServerNumber{0}}), Answer::done);
  ASSERT_TRUE(end_all());
  EXPECT_TRUE(is_committed(0));
}

// More than are asked about at once.
TEST_F(KvTerminator, EndsManyOneAfterTheOther) {
  for (std::uint64_t time = 1; time <= 200; ++time) {
    ASSERT_EQ(prepare(0, {time, 7}), Answer::done);
    ASSERT_EQ(prepare(1, {time, 7}), Answer::done);
  }
  ASSERT_TRUE(end_all());
  EXPECT_FALSE(store(0).newest(keys_[0]));
}

// What waits for a server that is away keeps no other transaction waiting, however much it is and however old.
TEST_F(KvTerminator, EndsWhatItCanWhileAServerIsAway) {
  for (std::uint64_t time = 1; time <= 200; ++time) {
    ASSERT_EQ(prepare(0, {time, 7}, {0, 2}), Answer::done);
  }
  ASSERT_EQ(prepare(0, {1000, 7}, {0, 1}), Answer::done);
  ASSERT_EQ(prepare(1, {1000, 7}, {0, 1}), Answer::done);
  for (const auto& requests : requests_) requests->lose(2);
  const auto is_committed = [this](ServerNumber server) {
    const auto newest = store(server).newest(keys_[server]);
    return newest && newest->timestamp == Timestamp{1000, 7};
  };
  EXPECT_TRUE(work_until([&] { return is_committed(0) && is_committed(1); }, [this] { deliver(); }));
}

// A client that ended tells no server that its last transaction is settled.
TEST_F(KvTerminator, FindsOutWhatIsCommittedEverywhere) {
  for (ServerNumber server = 0; server < kServers; ++server) ASSERT_EQ(prepare(server), Answer::done);
  for (const ServerNumber server : {0U, 1U}) ASSERT_EQ(store(server).commit(kTransaction).answer, Answer::done);
  const auto is_everywhere = [this](ServerNumber server) {
    const auto bytes = store(server).record(store(server).at(keys_[server], kTransaction).value());
    return (read_record(bytes, 0, keys_[server]).value().head.mark & RecordHead::kEverywhere) != 0;
  };
  servers_.fabric().sleep(2 * kTimeout);
  for (int i = 0; i < 10; ++i) {
    servers_.fabric().sleep(kTimeout);
    for (const ServerNumber server : {0U, 1U}) (void)terminators_[server]->step();
    for (const ServerNumber server : {0U, 1U}) requests_[server]->deliver();
  }
  EXPECT_FALSE(is_everywhere(0) || is_everywhere(1)) << "one has it prepared";
  ASSERT_TRUE(
      work_until([&] { return is_everywhere(0) && is_everywhere(1) && is_everywhere(2); }, [this] { deliver(); }));
}

// Who was heard of again is not judged by what was answered about it before.
TEST_F(KvTerminator, LeavesAClientAloneThatCameBack) {
  ASSERT_EQ(prepare(0, kTransaction, {0, 1}), Answer::done);
  ASSERT_EQ(prepare(1, kTransaction, {0, 1}), Answer::done);
  servers_.fabric().sleep(2 * kTimeout);
  EXPECT_FALSE(terminators_[0]->step());  // has asked
  ASSERT_EQ(store(1).commit(kTransaction).answer, Answer::done);
  ASSERT_EQ(store(0).commit(kTransaction).answer, Answer::done);
  deliver();
  (void)terminators_[0]->step();
  EXPECT_TRUE(is_committed(0) && is_committed(1));
  EXPECT_TRUE(nothing_is_prepared());
}

// Otherwise sessions that do not know of it yet fill this server's memory while that one is away.
TEST_F(KvTerminator, LetsOnlyAPartOfTheMemoryWaitForASilentServer) {
  requests_[0]->lose(2);
  const std::uint64_t part = store(0).use().bytes_total / 8;
  std::uint64_t time = 100;
  for (std::uint64_t taken = 0; taken <= part; taken += part / 4) {
    ASSERT_EQ(ask_to_prepare(++time, {0, 2}, part / 4), Answer::done);
  }
  const auto is_refused = [&] { return ask_to_prepare(++time, {0, 2}) == Answer::unwritable; };
  EXPECT_FALSE(is_refused()) << "before it is known that the server does not answer";
  EXPECT_TRUE(work_until(is_refused, [this] { deliver(); }));
  EXPECT_EQ(ask_to_prepare(101, {0, 2}, part / 4), Answer::done) << "it is prepared already";
  EXPECT_EQ(ask_to_prepare(++time, {0, 1}), Answer::done);
  EXPECT_EQ(servers_.store_of(keys_[0]).put({++time, 8}, {keys_[0], "alone"}).answer, Answer::done);
  requests_[0]->find_again(2);
  EXPECT_TRUE(work_until([&] { return ask_to_prepare(++time, {0, 2}) == Answer::done; }, [this] { deliver(); }));
}

}  // namespace
}  // namespace farside::kv
