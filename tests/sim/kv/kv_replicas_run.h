// kv_replicas_run.h — partitions with standbys under many seeds: what is drawn for a seed, and what is expected of it.
#pragma once

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "tests/sim/faults_met.h"
#include "tests/sim/kv/kv_run.h"

namespace farside::sim {

inline constexpr std::uint64_t kReplicaSeeds = 300;
inline constexpr Duration kShortLease = std::chrono::microseconds(500);

inline KvScenario draw_with_standbys(std::uint64_t seed) {
  Scheduler dice(seed * 104729);
  KvScenario scenario;
  scenario.has_standbys = true;
  scenario.servers = 1 + static_cast<kv::ServerNumber>(dice.random() % 2);
  scenario.clients = 2 + static_cast<team::Rank>(dice.random() % 2);
  scenario.keys = 2 + dice.random() % 3;
  scenario.one_in_erases = dice.one_in(2) ? 1 + dice.random() % 5 : 0;
  scenario.one_in_expires = dice.one_in(4) ? 4 : 0;
  scenario.one_in_conditions = dice.one_in(2) ? 2 : 0;
  if (dice.one_in(3)) scenario.most_value_bytes = 700;
  if (dice.one_in(3)) scenario.most_skew = std::chrono::milliseconds(10);
  if (dice.one_in(2)) scenario.termination_timeout = std::chrono::microseconds(300);
  scenario.ring_bytes = dice.one_in(2) ? 1024 : 4096;
  scenario.network = draw_network(dice);
  scenario.network.dead_memory_answers = dice.one_in(2);
  scenario.pauses = static_cast<int>(dice.random() % 3);
  scenario.stalls = static_cast<int>(dice.random() % 3);
  scenario.deaths = static_cast<team::Rank>(dice.random() % 2);
  switch (dice.random() % 4) {
    case 0: scenario.server_dies = true; break;
    case 1: scenario.is_suspected = true; break;
    case 2: scenario.standby_dies = true; break;
    default: break;
  }
  scenario.network.revoking_kills = dice.one_in(2);
  if (dice.one_in(2)) {
    scenario.lease = kShortLease;
    scenario.network.revoking_kills = false;
    scenario.is_apart = dice.one_in(2);
    scenario.apart *= 1 << dice.random() % 4;
  }
  if (dice.one_in(3)) scenario.breaks = 1 + static_cast<int>(dice.random() % 4);
  if (dice.one_in(4)) scenario.fill();
  if (dice.one_in(3)) {  // stops longer than time-outs
    scenario.timeout = std::chrono::milliseconds(2) + dice.up_to(std::chrono::milliseconds(4));
    scenario.pauses = 2 + static_cast<int>(dice.random() % 5);
    scenario.rounds = 24;
    if (!scenario.is_filled()) scenario.shipping = {.sync = scenario.timeout, .slice = scenario.timeout / 4};
  }
  if (dice.one_in(2)) {
    scenario.stop_for_longer_than_limits(dice);
    if (!scenario.lease) scenario.is_apart = dice.one_in(2);
  }
  return scenario;
}

using Shape = void (*)(KvScenario&);

inline KvScenario drawn_as(Shape shape, std::uint64_t seed) {
  KvScenario scenario = draw_with_standbys(seed);
  shape(scenario);
  // A lease does not cover a machine that was suspended and whose clock stood still (kv_replication.md, "Leases").
  if (scenario.lease) scenario.network.clocks_stop = false;
  // A client that is cut off and goes on may believe the primary: without leases the fabric has to end it.
  if (!scenario.lease && !scenario.network.revoking_kills) scenario.telling = {};
  return scenario;
}

using Count = std::uint64_t (*)(KvRun&);
inline std::uint64_t clients_cut_off(KvRun& run) { return run.world().cut_off(); }

/// Runs `usual` seeds, or those of the window that is asked for. Returns the `count` of the runs, per seed.
inline double expect_kept_as(Shape shape, std::uint64_t usual, Count count = clients_cut_off,
                             const std::optional<UnmetList>& unmet = {}) {
  std::uint64_t counted = 0;
  const auto run = [&](std::uint64_t seed, FaultCount& faults) {
    KvRun kv(seed, drawn_as(shape, seed));
    kv.world().count_faults(faults);
    auto found = kv.run();
    counted += count(kv);
    return found;
  };
  expect_kept(usual, run, unmet);
  return static_cast<double>(counted) / static_cast<double>(seed_window(usual).count);
}

/// One partition, which changes hands while all clients are at work.
inline void moving(KvScenario& scenario) {
  scenario.servers = 1;
  scenario.rounds = 60;
  scenario.keys = 2;
  scenario.one_in_erases = scenario.one_in_expires = scenario.one_in_conditions = 0;
  scenario.most_value_bytes = 24;
  scenario.deaths = 0;
  scenario.standby_dies = scenario.is_suspected = false;
  scenario.breaks = 0;
  scenario.server_dies = true;
  scenario.memory_bytes = KvScenario().memory_bytes;
  scenario.timeout = KvScenario().timeout;
  scenario.shipping = KvScenario().shipping;
  scenario.pauses %= 3;
}

inline bool caught(const kv::ReplicaRules& rules, Shape shape) {
  return noticed(first_violation(4 * kReplicaSeeds, [&](std::uint64_t seed) {
    KvScenario scenario = drawn_as(shape, seed);
    scenario.replica_rules = rules;
    return KvRun(seed, scenario).run();
  }));
}

}  // namespace farside::sim
