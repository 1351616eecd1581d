// Servers that are killed while clients write sets of keys, and started again with their journals: what clients were
// told is there, and every set is whole. (What a machine forgets that loses its power, crash_test.cc asks.)
#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kv_baselines/team_store.h"
#include "tests/support/fleet.h"
#include "tests/support/fleet_team.h"
#include "tests/support/pool.h"
#include "tests/support/reduced.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using namespace kv;

constexpr ServerNumber kServers = 2;
constexpr unsigned kClients = 3;
constexpr std::uint64_t kSets = 20;  // of keys, of each client
constexpr std::uint64_t kKeysInSet = 4;

/// How far each client has come, set by set: the number of the last put that returned.
using Progress = std::array<std::array<std::atomic<std::uint64_t>, kSets>, kClients>;

std::vector<std::string> keys_of(unsigned client, std::uint64_t set) {
  std::vector<std::string> keys;
  for (std::uint64_t key = 0; key < kKeysInSet; ++key) {
    keys.push_back("client " + std::to_string(client) + " set " + std::to_string(set) + " key " + std::to_string(key));
  }
  return keys;
}

class KvKilledServers : public testing::TestWithParam<SyncPolicy> {
 protected:
  [[nodiscard]] kv_baselines::TeamStoreOptions options(team::Rank rank) const {
    kv_baselines::TeamStoreOptions options;
    options.servers = kServers;
    options.store.bytes = 4U << 20U;
    options.termination_timeout = std::chrono::milliseconds(100);
    options.journal.emplace();
    options.journal->directory = directory_.path() / std::to_string(rank);
    options.journal->sync = GetParam();
    options.journal->least_log_bytes = 64U << 10U;  // so that snapshots are under way as well
    return options;
  }

  /// Clients write until their servers are killed, after so many puts.
  void write_and_kill(std::uint64_t puts) {
    const Shared<std::atomic<std::uint64_t>> done;
    Fleet fleet(kServers + kClients, [&](Member& me) {
      FleetTeam team(me);
      kv_baselines::TeamStore store(team, options(team.rank()));
      if (store.serves()) return store.serve_until([] { return false; });
      const auto session = store.open_session(0, {});
      write(team, session->session(), team.rank() - kServers, *done);
    });
    EXPECT_TRUE(eventually([&] { return *done >= puts; }));
    for (unsigned server = 0; server < kServers; ++server) fleet.signal(server, SIGKILL);
    for (unsigned member = kServers; member < kServers + kClients; ++member) EXPECT_EQ(fleet.wait(member), 0);
  }
  void write(team::Team& team, AtomicSession& session, unsigned client, std::atomic<std::uint64_t>& done) {
    for (std::uint64_t number = last_number_ + 1;; ++number) {
      const std::uint64_t set = number % kSets;
      const auto keys = keys_of(client, set);
      const std::string value = std::to_string(number);
      std::vector<Write> writes;
      for (const std::string& key : keys) writes.push_back({.key = key, .value = value});
      if (session.put_all(writes, team.fabric().in(std::chrono::seconds(1))) != PutOutcome::done) return;
      (*progress_).at(client).at(set) = number;
      ++done;
    }
  }

  void expect_all_there() {
    const Shared<std::atomic<bool>> over;
    Fleet fleet(kServers + 1, [&](Member& me) {
      FleetTeam team(me);
      kv_baselines::TeamStore store(team, options(team.rank()));
      if (store.serves()) return store.serve_until([&over] { return over->load(); });
      const auto session = store.open_session(0, {});
      for (unsigned client = 0; client < kClients; ++client) {
        for (std::uint64_t set = 0; set < kSets; ++set) expect_whole(team, session->session(), client, set);
      }
      *over = true;
    });
    fleet.expect_success();
  }
  void expect_whole(team::Team& team, AtomicSession& session, unsigned client, std::uint64_t set) {
    const auto keys = keys_of(client, set);
    const std::vector<std::string_view> wanted(keys.begin(), keys.end());
    const auto got = session.get_all(wanted, team.fabric().in(extended(std::chrono::seconds(30))));
    ASSERT_EQ(got.status, Outcome::done);
    const Got& first = got.value.front();
    for (const Got& each : got.value) EXPECT_EQ(each.value, first.value) << keys.front();
    const std::uint64_t found = first.present ? std::stoull(std::string(first.value)) : 0;
    EXPECT_GE(found, (*progress_).at(client).at(set)) << keys.front();
  }

  std::uint64_t last_number_ = 0;  // of the puts of earlier lives

 private:
  OnAQuickDisk on_a_quick_disk_;
  TemporaryDirectory directory_;
  const Shared<Progress> progress_;
};
std::string name_of(const testing::TestParamInfo<SyncPolicy>& tested) {
  switch (tested.param) {
    case SyncPolicy::always: return "Always";
    case SyncPolicy::everysec: return "EverySec";
    case SyncPolicy::no: break;
  }
  return "No";
}

INSTANTIATE_TEST_SUITE_P(Policies, KvKilledServers,
                         testing::Values(SyncPolicy::always, SyncPolicy::everysec, SyncPolicy::no), name_of);

TEST_P(KvKilledServers, HaveEverythingThatWasAcknowledged) {
  for (std::uint64_t life = 1; life <= 3; ++life) {
    write_and_kill(reduced(200 * life));
    expect_all_there();
    last_number_ += 1'000'000;
  }
}

}  // namespace
}  // namespace farside::test
