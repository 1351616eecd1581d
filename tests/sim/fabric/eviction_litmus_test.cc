// What an eviction does to the evicted process and to the third one, on one host, over a network, and under a launcher
// that reports it to none.
#include <gtest/gtest.h>

#include "tests/sim/fabric/litmus.h"

namespace farside::sim {
namespace {

constexpr team::Rank kEvicted = kReader;

struct Seen {
  bool lives = false;           ///< the evicted process
  bool is_lost = false;         ///< it, to the target
  bool has_died = false;        ///< it, as the target's team says
  bool is_out = false;          ///< as the evictor's team says
  bool counts_others = false;   ///< it takes the target for a member still
  bool reaches_target = false;  ///< by a WRITE
  bool reaches_evictor = false;
  friend bool operator==(const Seen&, const Seen&) = default;
};

// The writer evicts the reader. When all have been told, that WRITEs to both, if it lives.
Seen after_an_eviction(Network network) {
  network.detection = std::chrono::milliseconds(2);
  Seen seen;
  const auto sleep = [](Side& me, Duration duration) { me.litmus.world.fabric(me.rank).sleep(duration); };
  const auto look = [&seen, sleep](Side& me) {
    sleep(me, std::chrono::milliseconds(20));
    World& world = me.litmus.world;
    seen.lives = world.alive(kEvicted);
    seen.is_lost = world.fabric(kTarget).lost(kEvicted);
    seen.has_died = world.team(kTarget).has_died(kEvicted);
    EXPECT_FALSE(world.team(kEvicted).has_died(kTarget)) << "it was cut off itself";
    seen.counts_others = !world.fabric(kEvicted).lost(kTarget);
    seen.reaches_target = me.own(0).load() == 1;
  };
  Litmus litmus(1, network);
  (void)litmus.run({[&seen, sleep](Side& me) {
                      sleep(me, std::chrono::milliseconds(1));
                      EXPECT_EQ(me.litmus.world.team(kWriter).evict(kEvicted, me.soon()), Outcome::done);
                      EXPECT_TRUE(me.litmus.world.fabric(kWriter).lost(kEvicted));
                      sleep(me, std::chrono::milliseconds(20));
                      seen.is_out = me.litmus.world.team(kWriter).is_out(kEvicted);
                      seen.reaches_evictor = me.own(0).load() == 1;
                    },
                    [sleep](Side& me) {
                      sleep(me, std::chrono::milliseconds(10));
                      me.write(kWriter, 0, 1);
                      me.write(kTarget, 0, 1);
                    },
                    look});
  return seen;
}

TEST(SimLitmus, AnEvictionKillsOnOneHost) {
  EXPECT_EQ(after_an_eviction(tame()),
            (Seen{.is_lost = true, .has_died = true, .is_out = true, .counts_others = true}));
}

TEST(SimLitmus, AnEvictedProcessLivesOnOverANetworkAndAllAreTold) {
  Network network = tame();
  network.revoking_kills = false;
  EXPECT_EQ(after_an_eviction(network), (Seen{.lives = true, .is_lost = true, .has_died = true, .is_out = true}));
}

TEST(SimLitmus, AnEvictedProcessIsLostToItsEvictorAloneWhereNoneIsTold) {
  Network network = tame();
  network.revoking_kills = false;
  network.announces_evictions = false;
  EXPECT_EQ(after_an_eviction(network),
            (Seen{.lives = true, .is_out = true, .counts_others = true, .reaches_target = true}));
}

// It is lost to the evicted one alone, which is told of no death.
TEST(SimLitmus, WhatAnEvictedProcessHasEvictedStaysAMember) {
  Network network = tame();
  network.revoking_kills = false;
  Litmus litmus(1, network);
  (void)litmus.run({[](Side& me) { (void)me.litmus.world.team(kWriter).evict(kEvicted, me.soon()); },
                    [](Side& me) {
                      World& world = me.litmus.world;
                      while (!world.evicted(kEvicted)) world.fabric(kEvicted).sleep(std::chrono::microseconds(1));
                      EXPECT_EQ(world.team(kEvicted).evict(kTarget, me.soon()), Outcome::done);
                      EXPECT_TRUE(world.fabric(kEvicted).lost(kTarget));
                      EXPECT_FALSE(world.team(kEvicted).is_out(kTarget));
                    },
                    [](Side& me) { me.litmus.world.fabric(kTarget).sleep(std::chrono::milliseconds(20)); }});
  EXPECT_FALSE(litmus.world.evicted(kTarget));
  EXPECT_FALSE(litmus.world.fabric(kWriter).lost(kTarget));
}

}  // namespace
}  // namespace farside::sim
