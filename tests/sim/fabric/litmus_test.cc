// What the memory model allows of operations does happen under some seed when its switch is on, and under none when it
// is off or when the program does what the rule asks for. Rules 1 to 4 of docs/protocols/fabric.md.
#include "tests/sim/fabric/litmus.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace farside::sim {
namespace {

// ---- Rule 1: a transfer is a set of small accesses ----

using Words = std::array<std::uint64_t, 16>;

// One process WRITEs ones and then twos while another READs: of the words `first` and `second`, each is of another
// WRITE.
std::array<Litmus::Program, 3> read_between_writes(std::size_t first, std::size_t second) {
  return {[](Side& me) {
            for (const std::uint64_t value : {1, 2}) {
              Words words{};
              words.fill(value);
              (void)me.channel->write(me.memory->of(kTarget).span(0, 128), LocalSpan(words), me.soon());
            }
          },
          [first, second](Side& me) {
            me.wait_for(kTarget, 8 * first, 1);
            Words words{};
            (void)me.channel->read(LocalSpan(words), me.memory->of(kTarget).span(0, 128), me.soon());
            me.litmus.happened = words[first] + words[second] == 3 && words[first] * words[second] == 2;
          },
          {}};
}

TEST(SimLitmus, AReadMixesTwoWritesAtEightBytes) { EXPECT_TRUE(possible(tame(), read_between_writes(0, 1))); }

TEST(SimLitmus, AReadMixesTwoWritesAtSixtyFourBytesOnlyBetweenLines) {
  Network network = tame();
  network.grain_bytes = 64;
  EXPECT_FALSE(possible(network, read_between_writes(0, 7)));
  EXPECT_TRUE(possible(network, read_between_writes(0, 8)));
}

// One process WRITEs `words` words, all ones and then all twos, while another READs as many: the first word READ is
// neither.
std::array<Litmus::Program, 3> split_word(std::size_t words) {
  static constexpr std::uint64_t kOne = 0x1'0000'0001;
  return {[words](Side& me) {
            for (const std::uint64_t value : {kOne, 2 * kOne}) {
              Words sent{};
              sent.fill(value);
              (void)me.channel->write(me.memory->of(kTarget).span(0, 8 * words), LocalSpan(sent.data(), 8 * words),
                                      me.soon());
            }
          },
          [words](Side& me) {
            me.wait_for(kTarget, 0, kOne);
            Words read{};
            (void)me.channel->read(LocalSpan(read.data(), 8 * words), me.memory->of(kTarget).span(0, 8 * words),
                                   me.soon());
            me.litmus.happened = read[0] != 0 && read[0] != kOne && read[0] != 2 * kOne;
          },
          {}};
}

TEST(SimLitmus, AWordOfABulkTransferIsSplitAtFourBytes) {
  Network network = tame();
  EXPECT_FALSE(possible(network, split_word(2)));
  network.grain_bytes = 4;
  EXPECT_TRUE(possible(network, split_word(2)));
}

TEST(SimLitmus, AWordThatTravelsAloneIsWholeAtFourBytes) {
  Network network = tame();
  network.grain_bytes = 4;
  network.stores_twice = true;
  network.reorders = true;
  EXPECT_FALSE(possible(network, split_word(1)));
}

// Of the steps that a trace lists, those of the READ show both values.
void expect_mixture_in_trace(std::uint32_t grain_bytes) {
  Network network = tame();
  network.grain_bytes = grain_bytes;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Litmus litmus(seed, network);
    litmus.world.scheduler().keep_steps();
    if (!litmus.run(read_between_writes(0, 8))) continue;
    // The last READ is the one that mixed: "... operation N: READ by process 1 at process 2, offset O: 0xV".
    std::map<std::string, std::set<std::string>> values;
    for (const std::string& step : litmus.world.scheduler().steps()) {
      const auto operation = step.find("operation");
      const auto read = step.find(": READ by process 1");
      if (read == std::string::npos) continue;
      values[step.substr(operation, read - operation)].insert(step.substr(step.rfind(' ') + 1));
    }
    const auto mixes = [](const auto& of_one) {
      return of_one.second.contains("0x1") && of_one.second.contains("0x2");
    };
    EXPECT_TRUE(std::ranges::any_of(values, mixes));
    return;
  }
  FAIL() << "no READ mixed two WRITEs";
}

TEST(SimLitmus, ATraceShowsTheReadThatMixesAtEightBytes) { expect_mixture_in_trace(8); }
TEST(SimLitmus, ATraceShowsTheReadThatMixesAtSixtyFourBytes) { expect_mixture_in_trace(64); }

// A word that was read back is stored again, over what another has made of it.
TEST(SimLitmus, AWordIsStoredTwice) {
  const std::array<Litmus::Program, 3> program{[](Side& me) { me.write(kTarget, 0, 5); },
                                               [](Side& me) {
                                                 me.wait_for(kTarget, 0, 5);
                                                 (void)me.channel->fetch_add(me.memory->of(kTarget).word<AtomicWord>(0),
                                                                             1, me.soon());
                                                 me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(1));
                                                 me.litmus.happened = me.read(kTarget, 0) == 5;
                                               },
                                               {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.stores_twice = true;
  EXPECT_TRUE(possible(network, program));
}

// ---- Rule 2: operations to one target are unordered unless fenced ----

std::array<Litmus::Program, 3> pass_message(bool fenced) {
  return {[fenced](Side& me) {
            std::uint64_t data = 7;
            std::uint64_t flag = 1;
            Batch batch(*me.channel);
            batch.write(me.memory->of(kTarget).span(0, 8), LocalSpan(data));
            if (fenced) me.fence();
            batch.write(me.memory->of(kTarget).span(8, 8), LocalSpan(flag));
            (void)batch.wait(me.soon());
          },
          [](Side& me) {
            me.wait_for(kTarget, 8, 1);
            me.litmus.happened = me.read(kTarget, 0) != 7;
          },
          {}};
}

TEST(SimLitmus, AFlagOvertakesItsDataUnlessFenced) {
  Network network = tame();
  EXPECT_FALSE(possible(network, pass_message(false)));
  network.reorders = true;
  EXPECT_TRUE(possible(network, pass_message(false)));
  EXPECT_FALSE(possible(network, pass_message(true)));
}

// ---- Rule 3: completion is not visibility ----

std::array<Litmus::Program, 3> write_here_flag_there(bool flushed) {
  return {[flushed](Side& me) {
            me.write(kTarget, 0, 7);
            if (flushed) me.flush(kTarget);
            me.write(kReader, 8, 1);
          },
          [](Side& me) {
            me.wait_for(kReader, 8, 1);
            me.litmus.happened = me.read(kTarget, 0) != 7;
          },
          {}};
}

TEST(SimLitmus, AWriteCompletesBeforeItIsVisibleUnlessFlushed) {
  Network network = tame();
  EXPECT_FALSE(possible(network, write_here_flag_there(false)));
  network.completes_before_visible = true;
  EXPECT_TRUE(possible(network, write_here_flag_there(false)));
  EXPECT_FALSE(possible(network, write_here_flag_there(true)));
}

// ---- A process's own stores ----

std::array<Litmus::Program, 3> publish_own_data(bool fenced) {
  return {Litmus::Program{},
          [](Side& me) {
            me.wait_for(kTarget, 8, 1);
            me.litmus.happened = me.read(kTarget, 0) != 7;
          },
          [fenced](Side& me) {
            me.own(0).store(7);
            if (fenced) me.channel->local_fence();
            me.own(8).store(1);
          }};
}

TEST(SimLitmus, AnOwnersStoresReachMemoryInAnyOrderUnlessFenced) {
  Network network = tame();
  EXPECT_FALSE(possible(network, publish_own_data(false)));
  network.buffers_stores = true;
  EXPECT_TRUE(possible(network, publish_own_data(false)));
  EXPECT_FALSE(possible(network, publish_own_data(true)));
}

// ---- Rule 4: atomics are atomic among themselves ----

TEST(SimLitmus, AnAtomicUndoesAnOwnersStoreThatComesInBetween) {
  const std::array<Litmus::Program, 3> program{
      [](Side& me) { (void)me.channel->fetch_add(me.memory->of(kTarget).word<AtomicWord>(0), 1, me.soon()); },
      {},
      [](Side& me) {
        me.own(0).store(100);
        me.channel->local_fence();
        me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(1));
        me.litmus.happened = me.own(0).load() < 100;
      }};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.splits_atomics = true;
  EXPECT_TRUE(possible(network, program));
}

TEST(SimLitmus, AtomicsNeverLoseAnUpdateOfEachOther) {
  const Litmus::Program add = [](Side& me) {
    for (int i = 0; i < 5; ++i) {
      (void)me.channel->fetch_add(me.memory->of(kTarget).word<AtomicWord>(0), 1, me.soon());
    }
  };
  const std::array<Litmus::Program, 3> program{add, add, [&add](Side& me) {
                                                 add(me);
                                                 me.litmus.world.fabric(me.rank).sleep(std::chrono::milliseconds(50));
                                                 me.litmus.happened = me.own(0).load() != 15;
                                               }};
  Network network;  // all that it may do
  EXPECT_FALSE(possible(network, program));
}

}  // namespace
}  // namespace farside::sim
