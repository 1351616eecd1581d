// What clients make of a server whose disk takes nothing for a while: nothing that it could not keep counts as done.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/service/local_servers.h"

namespace farside::kv {
namespace {

constexpr ServerNumber kServers = 2;
constexpr ServerNumber kWithDisk = 1;

/// Remembers nothing: no server recovers from it.
class Disk final : public Journal {
 public:
  bool has_room = true;

  void append(std::span<const std::byte> /*request*/, std::span<const TakenPlace> /*places*/) override {}
  bool sync() override { return has_room; }
  [[nodiscard]] bool takes() const override { return has_room; }
  bool step() override { return false; }
};

/// Takes one change before each sync, as the ring of a standby does that a large value fills.
class FullAfterEach final : public Journal {
 public:
  bool syncs = true;
  int attempts = 0;

  void append(std::span<const std::byte> /*request*/, std::span<const TakenPlace> /*places*/) override {
    holds_ = true;
  }
  bool sync() override {
    ++attempts;
    holds_ = holds_ && !syncs;
    return syncs;
  }
  [[nodiscard]] bool takes() const override { return !holds_; }
  bool step() override { return false; }

 private:
  bool holds_ = false;
};

class KvFullDisk : public testing::Test {
 protected:
  [[nodiscard]] static std::string key(ServerNumber server, std::size_t number) {
    return key_of_server(server, kServers, number);
  }
  Answer ask(ServerNumber server, const Request& request) {
    return Reply::decode(servers_.handler(server).answer(request.encode())).value().answer;
  }
  bool is_present(LocalSession& session, std::string_view wanted) {
    const auto got = session.session.get_all({&wanted, 1}, servers_.soon());
    EXPECT_EQ(got.status, Outcome::done);
    return got.done() && got.value.front().present;
  }
  bool is_settled(const std::string& at, const Timestamp& version) {
    Store& store = servers_.store_of(at);
    const auto bytes = store.record(store.at(at, version).value());
    return (mark_bits(read_record(bytes, 0, at).value().head.mark) & RecordHead::kSettled) != 0;
  }

  Disk disk_;
  LocalServers servers_{kServers, {.bytes = 4U << 20U}, {}, &disk_};
};

// A session commits the oldest transaction that it has seen itself, to make room. It must not forget it while a server
// cannot: the next get would find the rest of the transaction missing.
TEST_F(KvFullDisk, LetsNoReaderForgetWhatItCouldNotCommit) {
  constexpr std::size_t kTransactions = 80;  // more than a session remembers if it can help it
  for (std::size_t i = 0; i < kTransactions; ++i) {
    const Timestamp timestamp{i + 1, 9};
    const std::string keys[] = {key(0, i), key(1, i)};
    const std::vector<KeyId> siblings{key_id(keys[0]), key_id(keys[1])};
    for (ServerNumber server = 0; server < kServers; ++server) {
      Request request{.kind = RequestKind::prepare, .session = 9, .timestamp = timestamp, .servers = {0, 1}};
      request.siblings = {SiblingsKind::list, std::as_bytes(std::span(siblings))};
      request.writes = {{.key = keys[server], .value = "value"}};
      ASSERT_EQ(ask(server, request), Answer::done);
    }
    ASSERT_EQ(ask(0, {.kind = RequestKind::commit, .session = 9, .timestamp = timestamp}), Answer::done);
  }
  LocalSession reader(servers_, {.session = 1});
  disk_.has_room = false;
  for (std::size_t i = 0; i < kTransactions; ++i) EXPECT_TRUE(is_present(reader, key(0, i))) << i;
  for (std::size_t i = 0; i < kTransactions; ++i) EXPECT_TRUE(is_present(reader, key(1, i))) << i;
  disk_.has_room = true;
  EXPECT_TRUE(is_present(reader, key(0, 0)));
  EXPECT_EQ(ask(1, {.kind = RequestKind::commit, .session = 9, .timestamp = {1, 9}}), Answer::done);
}

/// What is asked of server 1 to commit is not answered.
class NoCommits final : public LocalRequests {
 public:
  NoCommits(LocalServers& servers, Outcome outcome) : LocalRequests(servers), outcome_(outcome), servers_(servers) {}

  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override {
    if (server != 1 || Request::decode(request)->kind != RequestKind::commit) {
      return LocalRequests::send(server, request, deadline);
    }
    ++asked_;
    longest_wait_ = std::max(longest_wait_, deadline.at - servers_.fabric().now());
    return outcome_;
  }
  [[nodiscard]] bool is_loss_final(ServerNumber /*server*/) override { return true; }

  [[nodiscard]] Duration longest_wait() const noexcept { return longest_wait_; }
  [[nodiscard]] int asked() const noexcept { return asked_; }

 private:
  const Outcome outcome_;
  LocalServers& servers_;
  Duration longest_wait_{};
  int asked_ = 0;
};

/// Gets of so many transactions, each of which is committed at server 0 alone.
class KvUnsettled : public KvFullDisk {
 protected:
  void read_all(AtomicSession& session, std::size_t transactions) {
    for (std::size_t i = 0; i < transactions; ++i) {
      commit_at_first(i);
      ASSERT_EQ(read(session, key(0, 0)), Outcome::done) << i;
    }
  }
  void commit_at_first(std::size_t number) {
    const std::string written = key(0, 0);
    const Timestamp timestamp{number + 1, 9};
    const std::vector<KeyId> siblings{key_id(written), key_id(key(1, 0))};
    Request request{.kind = RequestKind::prepare, .session = 9, .timestamp = timestamp, .servers = {0, 1}};
    request.siblings = {SiblingsKind::list, std::as_bytes(std::span(siblings))};
    request.writes = {{.key = written, .value = "value"}};
    ASSERT_EQ(ask(0, request), Answer::done);
    ASSERT_EQ(ask(0, {.kind = RequestKind::commit, .session = 9, .timestamp = timestamp}), Answer::done);
  }
  Outcome read(AtomicSession& session, std::string_view wanted) {
    return session.get_all({&wanted, 1}, servers_.soon()).status;
  }
};

// What a get has read is right, however many versions are unsettled: a server that does not answer is waited for
// shortly, and not by each get.
TEST_F(KvUnsettled, KeepsNoGetWaiting) {
  NoCommits requests(servers_, Outcome::timed_out);
  AtomicSession reader(servers_.fabric(), servers_.channel(), requests, servers_.memories(), {.session = 1});
  read_all(reader, 1000);
  EXPECT_GT(requests.asked(), 0);
  EXPECT_LE(requests.longest_wait(), std::chrono::milliseconds(100));
}

TEST_F(KvUnsettled, AreForgottenOfAServerThatIsLost) {
  NoCommits requests(servers_, Outcome::peer_lost);
  AtomicSession reader(servers_.fabric(), servers_.channel(), requests, servers_.memories(), {.session = 1});
  read_all(reader, 5000);
}

// Only a get that would have to remember more fails.
TEST_F(KvUnsettled, KeepNoOtherGetFromItsData) {
  constexpr std::size_t kRemembered = 4096;
  NoCommits requests(servers_, Outcome::timed_out);
  AtomicSession reader(servers_.fabric(), servers_.channel(), requests, servers_.memories(), {.session = 1});
  read_all(reader, kRemembered);
  commit_at_first(kRemembered);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read(reader, key(0, 0)), Outcome::timed_out);
  EXPECT_EQ(read(reader, key(0, 1)), Outcome::done);
}

/// Its disk is full from the first commit on.
class FullFromCommit final : public LocalRequests {
 public:
  FullFromCommit(LocalServers& servers, Disk& disk) : LocalRequests(servers), disk_(disk) {}

  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override {
    if (Request::decode(request)->kind == RequestKind::commit) disk_.has_room = false;
    return LocalRequests::send(server, request, deadline);
  }

 private:
  Disk& disk_;
};

// A server that cannot keep a "no" says none: what may be committed is not settled.
TEST_F(KvFullDisk, LetsNoWriterTakeItsSilenceForANo) {
  FullFromCommit requests(servers_, disk_);
  AtomicSession writer(servers_.fabric(), servers_.channel(), requests, servers_.memories(),
                       {.session = 1, .grace = std::chrono::nanoseconds(1)});
  const std::string a = key(0, 0);
  const std::string b = key(1, 0);
  EXPECT_EQ(writer.put_all(std::vector<Write>{{a, "1"}, {b, "1"}}, servers_.soon()), PutOutcome::unknown);
  const Timestamp doubtful = writer.last_put();
  const auto put_at_the_other = [&] {
    const Write alone{a, "2"};
    return writer.put_all({&alone, 1}, servers_.soon());
  };
  EXPECT_EQ(put_at_the_other(), PutOutcome::done);
  EXPECT_EQ(put_at_the_other(), PutOutcome::done);
  EXPECT_FALSE(is_settled(a, doubtful));
  disk_.has_room = true;
  servers_.logged(kWithDisk).commit(doubtful);
  EXPECT_EQ(put_at_the_other(), PutOutcome::done);
  EXPECT_EQ(put_at_the_other(), PutOutcome::done);  // which says so
  EXPECT_TRUE(is_settled(a, doubtful));
}

Answer put_at(RequestHandler& handler, std::uint64_t time) {
  Request request{.kind = RequestKind::put, .session = 9, .timestamp = {time, 9}};
  const std::string key = "key " + std::to_string(time);
  request.writes = {{.key = key, .value = "value"}};
  return Reply::decode(handler.answer(request.encode())).value().answer;
}

TEST(KvFullRing, HasRoomAgainAfterASync) {
  FullAfterEach ring;
  LocalServers servers(1, {.bytes = 4U << 20U}, {}, &ring);
  for (std::uint64_t time = 1; time <= 3; ++time) EXPECT_EQ(put_at(servers.handler(0), time), Answer::done) << time;
}

TEST(KvFullRing, RefusesAtOnceAfterASyncThatFailed) {
  FullAfterEach ring;
  ring.syncs = false;
  LocalServers servers(1, {.bytes = 4U << 20U}, {}, &ring);
  EXPECT_EQ(put_at(servers.handler(0), 1), Answer::done);
  EXPECT_EQ(put_at(servers.handler(0), 2), Answer::unwritable);
  const int attempts = ring.attempts;
  EXPECT_EQ(put_at(servers.handler(0), 3), Answer::unwritable);
  EXPECT_EQ(ring.attempts, attempts);
}

}  // namespace
}  // namespace farside::kv
