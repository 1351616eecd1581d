// What lands, and what a process is told, when its connection breaks, its access is taken away or its peer dies while
// operations are under way. Rule 5 of docs/protocols/fabric.md.
#include <gtest/gtest.h>

#include "tests/sim/fabric/litmus.h"

namespace farside::sim {
namespace {

// The writer's connection breaks while a WRITE of two words is under way. It connects again, and finds neither; `then`
// says whether what it looks for has happened.
std::array<Litmus::Program, 3> write_and_break(const std::function<bool(Side&)>& then) {
  return {[then](Side& me) {
            World& world = me.litmus.world;
            SimFabric& fabric = world.fabric(me.rank);
            world.scheduler().after(std::chrono::nanoseconds(200), [&fabric] { fabric.break_connection(kTarget); });
            std::array<std::uint64_t, 2> words{7, 7};
            if (me.channel->write(me.memory->of(kTarget).span(0, 16), LocalSpan(words), me.soon()) == Outcome::done)
              return;
            fabric.connect(kTarget, world.fabric(kTarget).address());
            if (me.read(kTarget, 0) == 0 && me.read(kTarget, 8) == 0) me.litmus.happened = then(me);
          },
          {},
          {}};
}

TEST(SimLitmus, APartOfWhatABrokenConnectionCarriedLandsLate) {
  const auto lands_just = [](std::uint64_t here, std::uint64_t not_there) {
    return write_and_break([here, not_there](Side& me) {
      me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(20));
      return me.read(kTarget, here) == 7 && me.read(kTarget, not_there) == 0;
    });
  };
  Network network = tame();
  EXPECT_FALSE(possible(network, lands_just(0, 8)));
  EXPECT_FALSE(possible(network, lands_just(8, 0)));
  network.lands_late = true;
  EXPECT_TRUE(possible(network, lands_just(0, 8)));
  EXPECT_TRUE(possible(network, lands_just(8, 0)));
}

TEST(SimLitmus, NothingOfABrokenConnectionLandsAfterAFlush) {
  const auto program = [](bool flushes) {
    return write_and_break([flushes](Side& me) {
      EXPECT_EQ(me.channel->flush(kTarget, me.soon()), Outcome::peer_lost);
      EXPECT_EQ(flushes ? me.channel->flush(kTarget, me.soon()) : Outcome::done, Outcome::done);
      const std::uint64_t before = me.read(kTarget, 0);
      me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(20));
      return me.read(kTarget, 0) != before;
    });
  };
  Network network = tame();
  network.lands_late = true;
  EXPECT_TRUE(possible(network, program(false)));
  EXPECT_FALSE(possible(network, program(true)));
}

// The writer's access is taken away when its WRITE has completed, and has not landed. It hears of that from a flush,
// also when that begins later.
TEST(SimLitmus, AFlushTellsOfAWriteThatFailedBefore) {
  const auto flushes_as = [](Outcome flushed, std::uint64_t landed) {
    const auto is_so = std::make_shared<bool>();
    const Litmus::Program write = [=](Side& me) {
      World& world = me.litmus.world;
      world.scheduler().after(std::chrono::nanoseconds(500),
                              [&world] { (void)world.fabric(kTarget).revoke(kWriter, {}); });
      std::uint64_t value = 7;
      const Outcome written = me.channel->write(me.memory->of(kTarget).span(0, 8), LocalSpan(value), me.soon());
      world.fabric(me.rank).sleep(std::chrono::microseconds(10));
      *is_so = written == Outcome::done && me.channel->flush(kTarget, me.soon()) == flushed;
    };
    const Litmus::Program look = [=](Side& me) {
      me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(20));
      me.litmus.happened = *is_so && me.own(0).load() == landed;
    };
    return std::array<Litmus::Program, 3>{write, {}, look};
  };
  Network network = tame();
  network.revoking_kills = false;
  network.completes_before_visible = true;
  EXPECT_TRUE(possible(network, flushes_as(Outcome::done, 7)));
  EXPECT_TRUE(possible(network, flushes_as(Outcome::peer_lost, 0)));
  EXPECT_FALSE(possible(network, flushes_as(Outcome::done, 0)));
}

// The target takes the access away once it has seen the addition: the answer was on its way, and is lost.
TEST(SimLitmus, AnAtomicThatTookEffectIsReportedAsLost) {
  const auto seen = std::make_shared<bool>();
  const std::array<Litmus::Program, 3> program{
      [seen](Side& me) {
        *seen = false;
        const auto counter = me.memory->of(kTarget).word<AtomicWord>(0);
        me.litmus.happened = me.channel->fetch_add(counter, 1, me.soon()).status == Outcome::peer_lost && *seen;
      },
      {},
      [seen](Side& me) {
        SimFabric& fabric = me.litmus.world.fabric(me.rank);
        for (int i = 0; i < 1000 && !*seen; ++i) {
          fabric.sleep(std::chrono::nanoseconds(100));
          *seen = me.own(0).load() == 1;
        }
        if (*seen) {
          EXPECT_EQ(fabric.revoke(kWriter, me.soon()), Outcome::done);
        }
      }};
  Network network = tame();
  network.revoking_kills = false;
  EXPECT_FALSE(possible(network, program));
  network.answers_late = true;
  EXPECT_TRUE(possible(network, program));
}

TEST(SimLitmus, TheDeadAnswerOnlyOverMappedMemory) {
  const std::array<Litmus::Program, 3> program{
      [](Side& me) {
        me.litmus.world.fabric(me.rank).sleep(std::chrono::microseconds(50));
        me.litmus.world.kill(kTarget);
        me.litmus.happened = me.channel->load(me.memory->of(kTarget).word<ControlWord>(0), me.soon()).done();
      },
      {},
      {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.dead_memory_answers = true;
  EXPECT_TRUE(possible(network, program));
}

}  // namespace
}  // namespace farside::sim
