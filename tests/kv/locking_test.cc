// Strict two-phase locking, which RAMP is compared with: serializable, and nobody waits for ever.
#include <atomic>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kv/locking/locking_handler.h"
#include "kv/locking/locking_session.h"
#include "kv/protocol/server.h"
#include "kv/transports/team_transport.h"
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
  LockTable locks;
  using enum LockTable::Mode;
  EXPECT_TRUE(locks.take(1, kKey, shared));
  EXPECT_TRUE(locks.take(2, kKey, shared));
  EXPECT_FALSE(locks.take(3, kKey, exclusive));
  EXPECT_TRUE(locks.take(3, kOther, exclusive));
  EXPECT_FALSE(locks.take(1, kOther, shared));
  EXPECT_FALSE(locks.take(1, kOther, exclusive));
  EXPECT_TRUE(locks.take(3, kOther, shared)) << "it has more than that";
}

TEST(KvLockTable, LetsAReaderWriteWhoIsAlone) {
  LockTable locks;
  using enum LockTable::Mode;
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
    const std::vector<std::string_view> keys{keys_[from], keys_[to]};
    std::vector<std::string> values(2);
    const auto move_one = [&](std::span<const Got> got) {
      values = {std::to_string(amount(got[0]) - 1), std::to_string(amount(got[1]) + 1)};
      return std::vector<Write>{{keys[0], values[0]}, {keys[1], values[1]}};
    };
    ASSERT_EQ(session_.modify_all(keys, move_one, soon()), Outcome::done);
  }
  void expect_sum() {
    std::vector<Got> got;
    ASSERT_EQ(session_.get_all(keys_, got, soon()), Outcome::done);
    std::int64_t sum = 0;
    for (const Got& each : got) sum += amount(each);
    EXPECT_EQ(sum, kSum);
  }

 private:
  [[nodiscard]] Deadline soon() { return fabric_.in(std::chrono::seconds(60)); }

  Fabric& fabric_;
  LockingSession session_;
  std::vector<std::string> names_;
  std::vector<std::string_view> keys_;
};

// Each client goes round the accounts another way, so that they take their locks in orders that would be deadlocks.
TEST(KvLocking, KeepsASumWhateverTheOrderOfLocks) {
  const Shared<std::atomic<unsigned>> busy;
  *busy = kClients;
  const Shared<std::atomic<bool>> opened;
  Fleet fleet(kServers + kClients, [&](Member& me) {
    FleetTeam team(me);
    const auto channel = team.fabric().open_channel();
    TeamTransport transport(team, {.servers = kServers});
    if (team.rank() < kServers) {
      const auto inbox = transport.open_inbox(*channel);
      LockingHandler handler;
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
      bank.expect_sum();
    }
    --*busy;
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
