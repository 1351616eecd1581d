// A store among real processes: two servers, two clients of two sessions each. What clients saw is recorded and judged;
// and reads go on while the servers are stopped.
#include "kv_baselines/team_store.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kv/history/read_atomic.h"
#include "kv/history/recorder.h"
#include "tests/support/fleet.h"
#include "tests/support/fleet_team.h"
#include "tests/support/hosts.h"
#include "tests/support/mesh.h"
#include "tests/support/reduced.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using namespace kv;

constexpr ServerNumber kServers = 2;
constexpr std::uint32_t kSessions = 2;
constexpr std::size_t kKeys = 8;

/// How sessions and servers speak.
struct Way {
  const char* name = "";
  kv_baselines::Transport transport = kv_baselines::Transport::mailbox;
  Waking waking = Waking::doorbell;
};

kv_baselines::TeamStoreOptions options(const Way& way) {
  kv_baselines::TeamStoreOptions options;
  options.servers = kServers;
  options.sessions = kSessions;
  options.store.bytes = 16U << 20U;
  options.transport = way.transport;
  options.waking = way.waking;
  return options;
}

/// A member's part until its clients' work is over everywhere.
template <class Work>
void take_part(Member& me, const Way& way, const Shared<std::atomic<int>>& busy, Work work) {
  FleetTeam team(me);
  kv_baselines::TeamStore store(team, options(way));
  if (store.serves()) {
    store.serve_until([&busy] { return busy->load() == 0; });
  } else {
    work(team, store);
    busy->fetch_sub(1);
  }
  me.barrier();
}

std::string key_name(std::uint64_t key) { return "key " + std::to_string(key); }

/// Random transactions of one session, recorded. A value is the number of its writing.
void work_at_random(team::Team& team, AtomicSession& session, HistoryRecorder& recorder, std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  std::vector<std::string> names;
  for (std::uint64_t key = 0; key < kKeys; ++key) names.push_back(key_name(key));
  const auto transactions = static_cast<std::int64_t>(reduced(400));
  for (std::int64_t id = 1; id <= transactions; ++id) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      if (dice() % 2 == 0) keys.push_back(key);
    }
    const Deadline deadline = team.fabric().in(std::chrono::seconds(60));
    if (dice() % 2 == 0) {
      const std::string value = std::to_string(seed * 1'000'000 + static_cast<std::uint64_t>(id));
      std::vector<Write> writes;
      for (const std::uint64_t key : keys) {
        recorder.write(id, key, std::stoull(value));
        writes.push_back({names[key], value});
      }
      ASSERT_EQ(session.put_all(writes, deadline), PutOutcome::done);
    } else {
      std::vector<std::string_view> wanted;
      for (const std::uint64_t key : keys) wanted.push_back(names[key]);
      const auto got = session.get_all(wanted, deadline);
      ASSERT_EQ(got.status, Outcome::done);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const Got& found = got.value[i];
        recorder.read(id, keys[i], found.present ? std::stoull(std::string(found.value)) : 0);
      }
    }
  }
}

class AStoreInATeam : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Transports, AStoreInATeam,
                         testing::Values(Way{"Doorbell"},
                                         Way{"Polled", kv_baselines::Transport::mailbox, Waking::polled},
                                         Way{"SendReceive", kv_baselines::Transport::send_receive},
                                         Way{"Socket", kv_baselines::Transport::socket}),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(AStoreInATeam, ShowsAReadAtomicHistory) {
  if (GetParam().transport == kv_baselines::Transport::socket && Hosts::wanted())
    GTEST_SKIP() << "servers listen on loopback";
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("farside-history-" + std::to_string(::getpid()));
  const Shared<std::atomic<int>> busy;
  *busy = 2;
  Fleet fleet(kServers + 2, [&](Member& me) {
    take_part(me, GetParam(), busy, [&](team::Team& team, kv_baselines::TeamStore& store) {
      std::vector<std::jthread> threads;
      for (std::uint32_t number = 0; number < kSessions; ++number) {
        threads.emplace_back([&, number] {
          const std::uint64_t id = team.rank() * kSessions + number;
          SessionSettings settings;
          settings.way = static_cast<ReadWay>(id % 3);
          settings.siblings = id % 2 == 0 ? SiblingsKind::list : SiblingsKind::filter;
          settings.cached_keys = 64;
          const auto session = store.open_session(number, settings);
          HistoryRecorder recorder(file, id);
          work_at_random(team, session->session(), recorder, id);
        });
      }
    });
  });
  fleet.expect_success();
  const std::vector<std::string> files{file};
  const auto anomaly = check_read_atomic(read_history(files));
  EXPECT_FALSE(anomaly) << name_of(anomaly->kind) << ": " << anomaly->evidence.front();
  std::filesystem::remove(file);
}

// What a client knows the place of it reads while the servers are stopped, and what it has never read as well.
TEST(AStoreInATeamOfOneHost, IsReadWhileItsServersAreStopped) {
  if (fabric_mode_from_environment() == FabricMode::ucx || Hosts::wanted())
    GTEST_SKIP() << "over emulated transports the target's service thread takes part";
  const Shared<std::atomic<int>> busy;
  *busy = 1;
  const Shared<std::atomic<int>> stage;  // 1: all is known; 2: the servers are stopped; 3: all was read
  Fleet fleet(kServers + 1, [&](Member& me) {
    take_part(me, Way{}, busy, [&](team::Team& team, kv_baselines::TeamStore& store) {
      const auto soon = [&team] { return team.fabric().in(std::chrono::seconds(30)); };
      SessionSettings settings;
      const auto cells = store.open_session(0, settings);
      settings.way = ReadWay::addresses;
      const auto addresses = store.open_session(1, settings);
      const std::vector<Write> writes{{"key 1", "a"}, {"key 2", "b"}};
      const std::vector<std::string_view> keys{"key 1", "key 2"};
      ASSERT_EQ(cells->session().put_all(writes, soon()), PutOutcome::done);
      ASSERT_EQ(addresses->session().get_all(keys, soon()).status, Outcome::done);
      *stage = 1;
      EXPECT_TRUE(eventually([&] { return *stage == 2; }));
      for (AtomicSession* session : {&cells->session(), &addresses->session()}) {
        const auto got = session->get_all(keys, soon());
        ASSERT_EQ(got.status, Outcome::done);
        EXPECT_EQ(got.value[0].value, "a");
        EXPECT_EQ(got.value[1].value, "b");
      }
      *stage = 3;
    });
  });
  EXPECT_TRUE(eventually([&] { return *stage == 1; }));
  for (unsigned server = 0; server < kServers; ++server) fleet.stop(server);
  *stage = 2;
  EXPECT_TRUE(eventually([&] { return *stage == 3; }));
  for (unsigned server = 0; server < kServers; ++server) fleet.signal(server, SIGCONT);
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
