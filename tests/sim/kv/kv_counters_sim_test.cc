// Sessions that add 1 to two counters on two servers, by reading both and writing both if they are so still: nothing
// that was added is lost, and nothing is added to one of them alone.
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/sim/faults_met.h"
#include "tests/sim/kv/kv_world.h"

namespace farside::sim {
namespace {

using kv::PutOutcome;
using kv::Timestamp;

constexpr std::uint64_t kSeeds = 150;
constexpr kv::ServerNumber kServers = 2;

KvScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 7919);
  KvScenario scenario;
  scenario.servers = kServers;
  scenario.clients = 2 + static_cast<team::Rank>(dice.random() % 3);
  scenario.rounds = 4;
  if (dice.one_in(2)) scenario.most_skew = std::chrono::milliseconds(10);
  if (dice.one_in(2))
    scenario.termination_timeout = std::chrono::microseconds(300);  // so that servers often ask each other
  scenario.network = draw_network(dice);
  if (dice.one_in(2)) {
    scenario.pauses = static_cast<int>(dice.random() % 4);
    scenario.stalls = static_cast<int>(dice.random() % 4);
    scenario.deaths = static_cast<team::Rank>(dice.random() % 2);
  }
  if (dice.one_in(3)) {  // stops longer than time-outs
    scenario.timeout = std::chrono::milliseconds(1) + dice.up_to(std::chrono::milliseconds(2));
    scenario.pauses = 2 + static_cast<int>(dice.random() % 5);
    scenario.stops_servers_only = dice.one_in(2);
  }
  return scenario;
}

class KvCounters {
 public:
  KvCounters(std::uint64_t seed, const KvScenario& scenario) : scenario_(scenario), world_(seed, scenario) {
    for (int i = 0; keys_[0].empty() || keys_[1].empty(); ++i) {
      const std::string key = "counter " + std::to_string(i);
      keys_.at(kv::server_of(kv::key_id(key), kServers)) = key;
    }
  }

  [[nodiscard]] KvWorld& world() noexcept { return world_; }
  std::optional<std::string> run() {
    const auto work = [this](Client& client) {
      for (int round = 0; round < scenario_.rounds; ++round) add(client);
    };
    if (!world_.run(work, [this](Client& client) { look(client); })) return "a rank did not end";
    return violation_;
  }

 private:
  using Client = KvWorld::Client;
  struct Counters {
    std::array<std::uint64_t, kServers> values;
    std::array<Timestamp, kServers> versions;
  };

  [[nodiscard]] std::optional<Counters> read(Client& client, Deadline deadline) {
    const std::array<std::string_view, kServers> keys{keys_[0], keys_[1]};
    const auto got = client.session().get_all(keys, deadline);
    if (!got.done()) return std::nullopt;
    const auto number = [](const kv::Got& each) { return each.present ? std::stoull(std::string(each.value)) : 0; };
    const kv::Got& first = got.value[0];
    const kv::Got& second = got.value[1];
    return Counters{{number(first), number(second)}, {first.version, second.version}};
  }

  /// Until it is added, or its outcome is unknown. A get that fails has twice as long the next time: on some networks
  /// none comes to an end within the time-out.
  void add(Client& client) {
    Duration time = scenario_.timeout;
    for (PutOutcome outcome = PutOutcome::differs; outcome == PutOutcome::differs;) {
      world_.fabric_of(client).sleep(world_.dice().up_to(KvWorld::kAwhile));
      const auto counters = read(client, world_.fabric_of(client).in(time));
      if (!counters) {
        time = std::min<Duration>(2 * time, KvWorld::kTimeoutAfterFaults);
        continue;
      }
      time = scenario_.timeout;
      const std::string next = std::to_string(counters->values[0] + 1);
      const std::array writes{kv::Write{.key = keys_[0], .value = next, .expected = counters->versions[0]},
                              kv::Write{.key = keys_[1], .value = next, .expected = counters->versions[1]}};
      ++unknown_;  // also if the client dies
      outcome = client.session().put_all(writes, world_.deadline_of(client));
      if (outcome != PutOutcome::unknown) --unknown_;
      if (outcome == PutOutcome::done) ++added_;
    }
  }

  void look(Client& client) {
    const auto counters = read(client, world_.deadline_of(client));
    if (!counters) return fail("the counters cannot be read");
    const auto [one, other] = counters->values;
    if (one != other) fail("one is " + std::to_string(one) + ", the other " + std::to_string(other));
    if (one < added_ || one > added_ + unknown_) {
      fail(std::to_string(one) + ", where " + std::to_string(added_) + " were added and perhaps " +
           std::to_string(unknown_));
    }
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const KvScenario scenario_;
  KvWorld world_;
  std::array<std::string, kServers> keys_;  // one of each server
  std::uint64_t added_ = 0;
  std::uint64_t unknown_ = 0;
  std::optional<std::string> violation_;
};

TEST(KvCountersSim, LoseNothingThatWasAdded) {
  const auto run = [](std::uint64_t seed, FaultCount& count) {
    KvCounters counters(seed, draw(seed));
    counters.world().count_faults(count);
    return counters.run();
  };
  expect_kept(
      kSeeds, run,
      UnmetList{nothing_is_revoked(),
                writes_complete_early(),
                fences_find_all_over(),
                {"READ kv memory", {Fault::target_died, Fault::answer_lost}, "no server dies"},
                {"atomic kv mailboxes of servers", {Fault::target_died, Fault::answer_lost}, "no server dies"},
                {"wait kv mailboxes", {Fault::target_died}, "no server dies"},
                {"signal", {Fault::target_died}, "one client dies at most, and a flush reports that first", kMayBeZero},
                {"READ kv memory",
                 {Fault::poster_stopped, Fault::poster_died, Fault::landed_orphaned, Fault::target_stopped},
                 "few stop or die while they READ",
                 kRare},
                {"WRITE kv mailboxes of servers",
                 {Fault::poster_died, Fault::landed_orphaned, Fault::target_died, Fault::answer_lost},
                 "servers write there, and none dies"},
                {"WRITE kv mailboxes of servers", every_fault(),
                 "a server asks another one only about transactions in doubt", kRare}});
}
TEST(KvCountersSimRules, CatchesAConditionThatIgnoresThePrepared) {
  EXPECT_TRUE(noticed(first_violation(kSeeds, [](std::uint64_t seed) {
    KvScenario scenario = draw(seed);
    scenario.rules = {.conditions_heed_the_prepared = false};
    return KvCounters(seed, scenario).run();
  })));
}

}  // namespace
}  // namespace farside::sim
