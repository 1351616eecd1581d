// Strict two-phase locking, which RAMP is compared with: serializable, and no transaction waits for ever.
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kv/server/server.h"
#include "kv_baselines/locking/locking_handler.h"
#include "kv_baselines/locking/locking_session.h"
#include "kv_baselines/transports/team_transport.h"
#include "tests/support/fleet.h"
#include "tests/support/fleet_team.h"
#include "tests/support/reduced.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using namespace kv;

constexpr KeyId kKey{1, 1};
constexpr KeyId kOther{2, 2};

TEST(KvLockTable, SharesLocksOfReadersAndNoOthers) {
  kv_baselines::LockTable locks;
  using enum kv_baselines::LockTable::Mode;
  EXPECT_TRUE(locks.take(1, kKey, shared));
  EXPECT_TRUE(locks.take(2, kKey, shared));
  EXPECT_FALSE(locks.take(3, kKey, exclusive));
  EXPECT_TRUE(locks.take(3, kOther, exclusive));
  EXPECT_FALSE(locks.take(1, kOther, shared));
  EXPECT_FALSE(locks.take(1, kOther, exclusive));
  EXPECT_TRUE(locks.take(3, kOther, shared)) << "it has more than that";
}

TEST(KvLockTable, LetsAReaderWriteWhoIsAlone) {
  kv_baselines::LockTable locks;
  using enum kv_baselines::LockTable::Mode;
  EXPECT_TRUE(locks.take(1, kKey, shared));
  EXPECT_TRUE(locks.take(2, kKey, shared));
  EXPECT_FALSE(locks.take(1, kKey, exclusive));
  locks.release(2);
  EXPECT_TRUE(locks.take(1, kKey, exclusive));
  EXPECT_FALSE(locks.take(2, kKey, shared));
  locks.release(1);
  EXPECT_EQ(locks.held(), 0U);
}

constexpr ServerNumber kServers = 2;
constexpr unsigned kClients = 3;
constexpr std::int64_t kAccounts = 4;
constexpr std::int64_t kSum = 1000 * kAccounts;

std::string account(std::int64_t number) { return "account " + std::to_string(number); }

std::int64_t amount(const Got& got) { return std::stoll(std::string(got.value)); }

class Bank {
 public:
  Bank(Fabric& fabric, Requests& requests, std::uint64_t number) : fabric_(fabric), session_(fabric, requests, number) {
    for (std::int64_t i = 0; i < kAccounts; ++i) names_.push_back(account(i));
    keys_.assign(names_.begin(), names_.end());
  }

  void open() {
    std::vector<Write> writes;
    for (const std::string_view key : keys_) writes.push_back({key, "1000"});
    ASSERT_EQ(session_.put_all(writes, soon()), Outcome::done);
  }
  void transfer(std::size_t from, std::size_t to) {
    ASSERT_EQ(transfer(from, to, soon(), [] {}), Outcome::done);
  }
  /// `meanwhile`: whatever happens when the accounts were read and are not written yet.
  Outcome transfer(std::size_t from, std::size_t to, Deadline deadline, const std::function<void()>& meanwhile) {
    const std::vector<std::string_view> keys{keys_[from], keys_[to]};
    std::vector<std::string> values(2);
    const auto move_one = [&](std::span<const Got> got) {
      meanwhile();
      values = {std::to_string(amount(got[0]) - 1), std::to_string(amount(got[1]) + 1)};
      return std::vector<Write>{{keys[0], values[0]}, {keys[1], values[1]}};
    };
    return session_.modify_all(keys, move_one, deadline);
  }
  std::int64_t sum() {
    const auto got = session_.get_all(keys_, soon());
    EXPECT_EQ(got.status, Outcome::done);
    std::int64_t sum = 0;
    for (const Got& each : got.value) sum += amount(each);
    return sum;
  }

 private:
  [[nodiscard]] Deadline soon() { return fabric_.in(std::chrono::seconds(60)); }

  Fabric& fabric_;
  kv_baselines::LockingSession session_;
  std::vector<std::string> names_;
  std::vector<std::string_view> keys_;
};

/// Servers in the test's own process, asked by calls.
class LockingServers {
 public:
  /// Unless they keep the locks of what was read, this is not two-phase locking.
  explicit LockingServers(bool keeps_read_locks) : keeps_read_locks_(keeps_read_locks) {}

  Message answer(ServerNumber server, std::span<const std::byte> request) {
    Message reply = handlers_.at(server).answer(request);
    Request let_go = *Request::decode(request);
    if (let_go.kind == RequestKind::get && !keeps_read_locks_) {
      let_go.kind = RequestKind::abort;
      (void)handlers_.at(server).answer(let_go.encode());
    }
    return reply;
  }

 private:
  const bool keeps_read_locks_;
  std::array<kv_baselines::LockingHandler, kServers> handlers_;
};

class AskedAtOnce final : public Requests {
 public:
  explicit AskedAtOnce(LockingServers& servers) : servers_(servers) {}

  [[nodiscard]] ServerNumber servers() const override { return kServers; }
  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline /*deadline*/) override {
    replies_.at(server).push_back(servers_.answer(server, request));
    return Outcome::done;
  }
  Result<Message> receive(ServerNumber server, Deadline /*deadline*/) override {
    Message reply = std::move(replies_.at(server).front());
    replies_.at(server).pop_front();
    return {Outcome::done, std::move(reply)};
  }
  [[nodiscard]] bool has_reply(ServerNumber server) override { return !replies_.at(server).empty(); }

 private:
  LockingServers& servers_;
  std::array<std::deque<Message>, kServers> replies_;
};

/// When another one writes what a transaction has read, before it writes that.
std::int64_t sum_after_two_at_once(bool keeps_read_locks) {
  const auto fabric = make_host_fabric({.mode = FabricMode::direct});
  LockingServers servers(keeps_read_locks);
  AskedAtOnce to_servers(servers);
  AskedAtOnce to_servers_too(servers);
  Bank one(*fabric, to_servers, 1);
  Bank other(*fabric, to_servers_too, 2);
  one.open();
  const auto interfere = [&] { (void)other.transfer(1, 2, fabric->in(std::chrono::milliseconds(1)), [] {}); };
  EXPECT_EQ(one.transfer(0, 1, fabric->in(std::chrono::seconds(60)), interfere), Outcome::done);
  return other.sum();
}

TEST(KvLocking, LetsNoOtherClientWriteWhatATransactionHasRead) { EXPECT_EQ(sum_after_two_at_once(true), kSum); }
TEST(KvLocking, WithoutLocksOfWhatWasReadLosesMoney) { EXPECT_NE(sum_after_two_at_once(false), kSum); }

// Each client goes round the accounts another way, so that they take their locks in orders that would be deadlocks.
TEST(KvLocking, KeepsASumWhateverTheOrderOfLocks) {
  const Shared<std::atomic<unsigned>> busy;
  *busy = kClients;
  const Shared<std::atomic<bool>> opened;
  Fleet fleet(kServers + kClients, [&](Member& me) {
    FleetTeam team(me);
    const auto channel = team.fabric().open_channel();
    kv_baselines::TeamTransport transport(team, {.servers = kServers});
    if (team.rank() < kServers) {
      const auto inbox = transport.open_inbox(*channel);
      kv_baselines::LockingHandler handler;
      Server server(*inbox, [&handler](std::span<const std::byte> request) { return handler.answer(request); });
      server.serve_until([&busy] { return *busy == 0; });
      return;
    }
    const auto requests = transport.open_requests(*channel, 0);
    Bank bank(team.fabric(), *requests, team.rank());
    if (team.rank() == kServers) {
      bank.open();
      *opened = true;
    }
    EXPECT_TRUE(eventually([&opened] { return opened->load(); }));
    const std::size_t stride = team.rank();
    for (std::size_t i = 0; i < static_cast<std::size_t>(reduced(200)); ++i) {
      const std::size_t from = i * stride % kAccounts;
      bank.transfer(from, (from + 1 + i % (kAccounts - 1)) % kAccounts);
      EXPECT_EQ(bank.sum(), kSum);
    }
    --*busy;
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
