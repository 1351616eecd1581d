// Faults of processes, clocks and links; litmus_test.cc does the same for operations. Rule 5 of
// docs/protocols/fabric.md.
#include <gtest/gtest.h>

#include "tests/sim/fabric/litmus.h"

namespace farside::sim {
namespace {

// ---- Rule 5: no process is certainly gone ----

TEST(SimLitmus, AnOperationLandsAfterItsPosterGaveItUp) {
  const std::array<Litmus::Program, 3> program{
      [](Side& me) {
        std::uint64_t value = 7;
        const Deadline short_deadline = me.litmus.world.fabric(me.rank).in(std::chrono::microseconds(10));
        const bool gave_up = me.channel->write(me.memory->of(kTarget).span(0, 8), LocalSpan(value), short_deadline) ==
                             Outcome::timed_out;
        const bool was_not_there = gave_up && me.read(kTarget, 0) == 0;
        me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(10));
        me.litmus.happened = was_not_there && me.read(kTarget, 0) == 7;
      },
      {},
      {}};
  Network network = tame();
  network.reorders = true;  // else the look would wait for the operation
  EXPECT_FALSE(possible(network, program));
  network.lands_late = true;
  EXPECT_TRUE(possible(network, program));
}

TEST(SimLitmus, AnOperationLandsAfterItsPosterDied) {
  const std::array<Litmus::Program, 3> program{[](Side& me) { me.write(kTarget, 0, 7); },
                                               [](Side& me) {
                                                 if (me.read(kTarget, 0) != 0) return;
                                                 me.litmus.world.kill(kWriter);
                                                 me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(10));
                                                 me.litmus.happened = me.read(kTarget, 0) == 7;
                                               },
                                               {}};
  EXPECT_TRUE(possible(tame(), program));
}

TEST(SimLitmus, AnOperationLandsAfterItsPosterCameBack) {
  const std::array<Litmus::Program, 3> program{
      [](Side& me) { me.write(kTarget, 0, 7); },
      [](Side& me) {
        if (me.read(kTarget, 0) != 0) return;
        me.litmus.world.kill(kWriter);
        me.litmus.come_back(kWriter, [](Side& successor) {
          if (successor.read(kTarget, 0) != 0) return;
          successor.litmus.world.fabric(kWriter).sleep(std::chrono::milliseconds(10));
          successor.litmus.happened = successor.read(kTarget, 0) == 7;
        });
      },
      {}};
  Network network = tame();
  network.lands_late = true;
  EXPECT_TRUE(possible(network, program));
}

// Nothing is left of its memory, and what was posted to its earlier life never arrives.
TEST(SimLitmus, ANodeComesBackEmpty) {
  const auto program = [](bool dies) {
    const Litmus::Program look = [](Side& me) {
      me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(20));
      me.litmus.happened = me.own(0).load() == 7 || me.own(8).load() == 7;
    };
    const Litmus::Program write = [dies, look](Side& me) {
      std::uint64_t value = 7;
      me.write(kTarget, 0, value);
      const Deadline at_once = me.litmus.world.fabric(me.rank).in({});
      (void)me.channel->write(me.memory->of(kTarget).span(8, 8), LocalSpan(value), at_once);
      if (!dies) return;
      me.litmus.world.kill(kTarget);
      me.litmus.come_back(kTarget, look);
    };
    return std::array<Litmus::Program, 3>{write, {}, look};
  };
  EXPECT_TRUE(possible(tame(), program(false)));
  EXPECT_FALSE(possible(tame(), program(true)));
}

TEST(SimLitmus, ANodeThatCameBackIsReachedInItsNewMemory) {
  const std::array<Litmus::Program, 3> program{
      [](Side& me) {
        me.litmus.world.kill(kTarget);
        me.litmus.come_back(kTarget, [](Side& successor) {
          successor.litmus.world.fabric(kTarget).sleep(std::chrono::milliseconds(50));
          successor.litmus.happened = successor.own(0).load() == 7;
        });
        me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(20));  // the others hear of it within 10
        me.write(kTarget, 0, 7);
      },
      {},
      {}};
  EXPECT_TRUE(possible(tame(), program));
}

// The dead run no destructors: what they held stays held.
TEST(SimLitmus, AKilledProcessReleasesNothing) {
  struct Lock {
    explicit Lock(Side& holder) : me(holder) { me.write(kTarget, 0, 1); }
    ~Lock() { me.write(kTarget, 0, 0); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    Side& me;
  };
  const auto program = [](bool dies) {
    return std::array<Litmus::Program, 3>{[](Side& me) {
                                            const Lock lock(me);
                                            me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(1));
                                          },
                                          [dies](Side& me) {
                                            me.wait_for(kTarget, 0, 1);
                                            if (dies) me.litmus.world.kill(kWriter);
                                            me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(20));
                                            me.litmus.happened = me.read(kTarget, 0) == 0;
                                          },
                                          {}};
  };
  EXPECT_TRUE(possible(tame(), program(false)));
  EXPECT_FALSE(possible(tame(), program(true)));
}

// It looked, was stopped, and acts on what it saw when all has changed: why a lease is no permission.
TEST(SimLitmus, APausedProcessActsOnWhatItSawLongAgo) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 if (me.read(kTarget, 0) != 0) return;  // "the lock is mine"
                                                 me.write(kTarget, 8, 1);
                                               },
                                               [](Side& me) {
                                                 me.litmus.world.pause(kWriter, std::chrono::milliseconds(50));
                                                 me.write(kTarget, 0, 1);  // "the lock is another process's"
                                                 me.flush(kTarget);
                                                 if (me.read(kTarget, 8) != 0) return;
                                                 me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(100));
                                                 me.litmus.happened = me.read(kTarget, 8) == 1;
                                               },
                                               {}};
  EXPECT_TRUE(possible(tame(), program));
}

// The lease was good when it looked, and is long over when its WRITE lands.
TEST(SimLitmus, AThreadIsStoppedBetweenItsLookAtALeaseAndItsPosting) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 Fabric& fabric = me.litmus.world.fabric(me.rank);
                                                 const Deadline lease = fabric.in(std::chrono::microseconds(100));
                                                 if (fabric.now() >= lease.at) return;
                                                 me.write(kTarget, 0, 1);
                                                 me.litmus.happened = fabric.now() >= lease.at;
                                               },
                                               {},
                                               {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.stalls_before_posting = true;
  EXPECT_TRUE(possible(network, program));
}

// A WRITE completed, and then its poster computes: no process sees the WRITE until the poster calls again.
std::array<Litmus::Program, 3> write_and_compute(bool calls) {
  return {[calls](Side& me) {
            me.write(kTarget, 0, 1);
            if (calls) me.flush(kTarget);
            me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(100));
          },
          [](Side& me) {
            me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(50));
            me.litmus.happened = me.read(kTarget, 0) == 0;
          },
          {}};
}

TEST(SimLitmus, AnInitiatorMakesNoProgressUntilItCallsAgain) {
  Network network = tame();
  network.completes_before_visible = true;
  EXPECT_FALSE(possible(network, write_and_compute(false)));
  network.needs_calls_for_progress = true;
  EXPECT_TRUE(possible(network, write_and_compute(false)));
  EXPECT_FALSE(possible(network, write_and_compute(true)));
}

// ---- Clocks ----

// What one process's clock showed before is later than what another's shows afterwards.
TEST(SimLitmus, ClocksOfTwoProcessesShowOtherTimes) {
  const std::array<Litmus::Program, 3> program{
      [](Side& me) {
        const auto shown = static_cast<std::uint64_t>(me.litmus.world.fabric(me.rank).now().nanoseconds);
        me.write(kTarget, 0, shown);
      },
      [](Side& me) {
        std::uint64_t before = 0;
        for (int i = 0; i < 1000 && before == 0; ++i) before = me.read(kTarget, 0);
        me.litmus.happened = static_cast<std::int64_t>(before) > me.litmus.world.fabric(me.rank).now().nanoseconds;
      },
      {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.clocks_drift = true;
  EXPECT_TRUE(possible(network, program));
}

TEST(SimLitmus, ClocksRunAtOtherRates) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 const Time start = me.litmus.world.scheduler().now();
                                                 me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(1));
                                                 const Duration slept = me.litmus.world.scheduler().now() - start;
                                                 me.litmus.happened = slept > std::chrono::microseconds(1050) ||
                                                                      slept < std::chrono::microseconds(950);
                                               },
                                               {},
                                               {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.clocks_drift = true;
  EXPECT_TRUE(possible(network, program));
}

// ---- Links ----

TEST(SimLitmus, ALinkThatIsCutInOneDirectionHoldsBackThatDirectionOnly) {
  Litmus litmus(1, tame());
  bool back = false;
  bool forth = false;
  litmus.run({[&](Side& me) {
                me.litmus.world.wires().cut(kWriter, kTarget);
                std::uint64_t value = 1;
                const Deadline soon = me.litmus.world.fabric(me.rank).in(std::chrono::milliseconds(5));
                forth = me.channel->write(me.memory->of(kTarget).span(0, 8), LocalSpan(value), soon) == Outcome::done;
                back = me.own(0).load() == 7;
              },
              {},
              [&](Side& me) {
                me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(1));
                const Deadline soon = me.litmus.world.fabric(me.rank).in(std::chrono::milliseconds(1));
                std::uint64_t value = 7;
                (void)me.channel->write(me.memory->of(kWriter).span(0, 8), LocalSpan(value), soon);
              }});
  EXPECT_TRUE(back);
  EXPECT_FALSE(forth);
}

// Only the way back is cut: what was asked for happened, and who asked cannot know.
TEST(SimLitmus, AnAtomicWhoseAnswerIsHeldBackTookEffect) {
  Litmus litmus(1, tame());
  bool answered = true;
  std::uint64_t found = 0;
  litmus.run({[&](Side& me) {
                me.litmus.world.wires().cut(kTarget, kWriter);
                const Deadline soon = me.litmus.world.fabric(me.rank).in(std::chrono::milliseconds(1));
                answered = me.channel->fetch_add(me.memory->of(kTarget).word<AtomicWord>(0), 1, soon).done();
              },
              {},
              [&](Side& me) {
                me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(2));
                found = me.own(0).load();
              }});
  EXPECT_FALSE(answered);
  EXPECT_EQ(found, 1u);
}

TEST(SimLitmus, AStalledLinkDeliversWhatItHeldBack) {
  Litmus litmus(1, tame());
  std::uint64_t during = 1;
  bool done = false;
  litmus.run({[&](Side& me) {
                me.litmus.world.wires().stall(kWriter, kTarget, std::chrono::milliseconds(5));
                std::uint64_t value = 1;
                done =
                    me.channel->write(me.memory->of(kTarget).span(0, 8), LocalSpan(value), me.soon()) == Outcome::done;
              },
              {},
              [&](Side& me) {
                me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(2));
                during = me.own(0).load();
              }});
  EXPECT_EQ(during, 0u);
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace farside::sim
