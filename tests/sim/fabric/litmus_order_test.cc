// As litmus_test.cc: the simulator's side of tests/fabric/litmus_order_test.cc. Each program once as the rule asks for,
// which never fails, and once without the step that the rule is about, which does under some seed.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/fabric/litmus.h"

namespace farside::sim {
namespace {

using Programs = std::array<Litmus::Program, 3>;

constexpr std::uint64_t kData = 0;
constexpr std::uint64_t kFlag = 8;

Network unordered() {
  Network network = tame();
  network.reorders = true;
  network.completes_before_visible = true;
  return network;
}

// ---- What a fence waits for ----

Programs write_after_read(bool fenced) {
  return {[fenced](Side& me) {
            std::uint64_t found = 0;
            std::uint64_t next = 7;
            Batch batch(*me.channel);
            batch.read(LocalSpan(found), me.memory->of(kTarget).span(kData, 8));
            if (fenced) (void)me.channel->fence(kTarget, me.soon());
            batch.write(me.memory->of(kTarget).span(kData, 8), LocalSpan(next));
            me.litmus.happened = batch.wait(me.soon()) == Outcome::done && found == next;
          },
          {},
          {}};
}

TEST(SimLitmus, AReadSeesALaterWriteUnlessFenced) {
  EXPECT_TRUE(possible(unordered(), write_after_read(false)));
  EXPECT_FALSE(possible(unordered(), write_after_read(true)));
}

Programs flag_after_atomic(bool fenced) {
  return {[fenced](Side& me) {
            std::uint64_t old = 0;
            std::uint64_t flag = 1;
            Batch batch(*me.channel);
            batch.fetch_add(me.memory->of(kTarget).word<AtomicWord>(kData), 7, old);
            if (fenced) (void)me.channel->fence(kTarget, me.soon());
            batch.write(me.memory->of(kTarget).span(kFlag, 8), LocalSpan(flag));
            (void)batch.wait(me.soon());
          },
          [](Side& me) {
            me.wait_for(kTarget, kFlag, 1);
            me.litmus.happened = me.read(kTarget, kData) != 7;
          },
          {}};
}

TEST(SimLitmus, AFlagOvertakesAnAtomicUnlessFenced) {
  EXPECT_TRUE(possible(unordered(), flag_after_atomic(false)));
  EXPECT_FALSE(possible(unordered(), flag_after_atomic(true)));
}

// ---- When a source is free ----

Programs reuse_of_a_source(bool completed) {
  return {[completed](Side& me) {
            std::uint64_t source = 7;
            Batch batch(*me.channel);
            batch.write(me.memory->of(kTarget).span(kData, 8), LocalSpan(source));
            if (completed) (void)batch.wait(me.soon());
            source = 9;
            (void)batch.wait(me.soon());
            (void)me.channel->flush(kTarget, me.soon());
            me.litmus.happened = me.read(kTarget, kData) == 9;
          },
          {},
          {}};
}

TEST(SimLitmus, ASourceThatIsUsedAgainArrivesUnlessTheWriteCompleted) {
  EXPECT_TRUE(possible(unordered(), reuse_of_a_source(false)));
  EXPECT_FALSE(possible(unordered(), reuse_of_a_source(true)));
}

// ---- What flush_all covers ----

// The data goes to two targets, and the flag by another channel to a third.
Programs flag_by_another_channel(bool flushes) {
  return {[flushes](Side& me) {
            std::array<std::uint64_t, 2> data{7, 7};
            Batch batch(*me.channel);
            batch.write(me.memory->of(kTarget).span(kData, 8), LocalSpan(data.data(), 8));
            batch.write(me.memory->of(kWriter).span(kData, 8), LocalSpan(data.data() + 1, 8));
            if (flushes) (void)me.channel->flush_all(me.soon());
            const auto flags = me.litmus.world.fabric(me.rank).open_channel();
            (void)flags->store(me.memory->of(kReader).word<ControlWord>(kFlag), 1, me.soon());
            (void)batch.wait(me.soon());
          },
          [](Side& me) {
            me.wait_for(kReader, kFlag, 1);
            me.litmus.happened = me.read(kTarget, kData) != 7 || me.read(kWriter, kData) != 7;
          },
          {}};
}

TEST(SimLitmus, FlushAllOrdersAcrossTargetsAndChannels) {
  EXPECT_TRUE(possible(unordered(), flag_by_another_channel(false)));
  EXPECT_FALSE(possible(unordered(), flag_by_another_channel(true)));
}

// Of two targets the first is lost, and the other one cannot be reached before the deadline.
TEST(SimLitmus, FlushAllReportsATimeOutBeforeALoss) {
  const auto flush_returns = [](Outcome expected) {
    return [expected](Side& me) {
      World& world = me.litmus.world;
      std::array<std::uint64_t, 2> data{7, 7};
      Batch batch(*me.channel);
      batch.write(me.memory->of(kWriter).span(kData, 8), LocalSpan(data.data(), 8));
      batch.write(me.memory->of(kReader).span(kData, 8), LocalSpan(data.data() + 1, 8));
      world.kill(kWriter);
      world.wires().stall(world.fabric(kTarget).process(), world.fabric(kReader).process(), std::chrono::seconds(2));
      me.litmus.happened = me.channel->flush_all(me.soon()) == expected;
      (void)batch.wait(me.soon());
    };
  };
  EXPECT_TRUE(possible(tame(), {Litmus::Program{}, {}, flush_returns(Outcome::timed_out)}));
  EXPECT_FALSE(possible(tame(), {Litmus::Program{}, {}, flush_returns(Outcome::peer_lost)}));
}

// ---- What signals follow ----

Programs tell_two(bool by_signal) {
  const Litmus::Program look = [](Side& me) {
    const auto is_told = [](std::uint64_t word) { return word == 1; };
    if (me.channel->wait_until(me.memory->local(), me.own(kFlag), is_told, me.soon()) != Outcome::done) return;
    me.channel->local_fence();
    if (me.own(kData).load() != 7) me.litmus.happened = true;
  };
  return {[by_signal](Side& me) {
            std::array<std::uint64_t, 2> data{7, 7};
            std::vector<RemoteWord<ControlWord>> words;
            Batch batch(*me.channel);
            for (const team::Rank at : {kReader, kTarget}) {
              batch.write(me.memory->of(at).span(kData, 8), LocalSpan(data.data() + words.size(), 8));
              words.push_back(me.memory->of(at).word<ControlWord>(kFlag));
            }
            if (by_signal) {
              (void)me.channel->write_signals(words, 1, me.soon());
            } else {
              for (const auto& word : words) (void)me.channel->store(word, 1, me.soon());
            }
            (void)batch.wait(me.soon());
          },
          look, look};
}

TEST(SimLitmus, SignalsToSeveralTargetsFollowWhatEachGot) {
  EXPECT_TRUE(possible(unordered(), tell_two(false)));
  EXPECT_FALSE(possible(unordered(), tell_two(true)));
}

// A signal follows what was posted, and not what its sender stored into its own region: that takes local_fence. On
// x86-64 no test can tell, since its CPUs keep stores in order.
Programs signal_own_data(bool fenced) {
  return {Litmus::Program{},
          [](Side& me) {
            me.wait_for(kReader, kFlag, 1);
            me.litmus.happened = me.read(kTarget, kData) != 7;
          },
          [fenced](Side& me) {
            me.own(kData).store(7);
            if (fenced) me.channel->local_fence();
            (void)me.channel->write_signal(me.memory->of(kReader).word<ControlWord>(kFlag), 1, me.soon());
          }};
}

TEST(SimLitmus, ASignalOvertakesItsSendersOwnStoresUnlessFenced) {
  Network network = unordered();
  EXPECT_FALSE(possible(network, signal_own_data(false)));
  network.buffers_stores = true;
  EXPECT_TRUE(possible(network, signal_own_data(false)));
  EXPECT_FALSE(possible(network, signal_own_data(true)));
}

}  // namespace
}  // namespace farside::sim
