// Each rule of the memory model bites: what it allows does happen under some seed when its switch is on, and under none
// when it is off or when the program does what the rule asks for.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "sim/world.h"

namespace farside::sim {
namespace {

constexpr int kSeeds = 400;
constexpr Rank kWriter = 0;
constexpr Rank kReader = 1;
constexpr Rank kTarget = 2;

// A network that does nothing odd; a test turns on what it is about.
Network tame() {
  Network network;
  network.stores_twice = false;
  network.reorders = false;
  network.completes_before_visible = false;
  network.buffers_stores = false;
  network.splits_atomics = false;
  network.lands_late = false;
  network.stalls_before_posting = false;
  network.needs_calls_for_progress = false;
  network.clocks_drift = false;
  return network;
}

// Three processes with a region of 256 bytes each. What a program is about to find out, it says by `happened`.
class Litmus {
 public:
  explicit Litmus(std::uint64_t seed, const Network& network) : world(seed, 3, network) {}

  struct Side {
    Litmus& litmus;
    Rank rank;
    std::unique_ptr<SymmetricRegion> memory;
    std::unique_ptr<Channel> channel;

    [[nodiscard]] Deadline soon() const { return litmus.world.fabric(rank).in(std::chrono::seconds(1)); }
    void write(Rank at, std::uint64_t offset, std::uint64_t value) const {
      (void)channel->write(memory->of(at).span(offset, 8), LocalSpan(value), soon());
    }
    [[nodiscard]] std::uint64_t read(Rank at, std::uint64_t offset) const {
      return channel->load(memory->of(at).word<ControlWord>(offset), soon()).value;
    }
    void wait_for(Rank at, std::uint64_t offset, std::uint64_t value) const {
      for (int i = 0; i < 1000 && read(at, offset) != value; ++i) {
      }
    }
    [[nodiscard]] LocalWord<ControlWord> own(std::uint64_t offset) const {
      return memory->local().word<ControlWord>(offset);
    }
    void fence() const { (void)channel->fence(soon()); }
    void flush(Rank at) const { (void)channel->flush(at, soon()); }
  };
  using Program = std::function<void(Side&)>;

  bool run(const std::array<Program, 3>& programs) {
    for (Rank rank = 0; rank < 3; ++rank) {
      world.on(rank, [this, rank, &programs] {
        auto memory = world.team(rank).allocate("litmus", 256);
        Side side{*this, rank, std::move(memory), world.fabric(rank).open_channel()};
        if (programs[rank]) programs[rank](side);
        // The region stays until all are through.
        (void)world.team(rank).barrier(world.fabric(rank).in(std::chrono::seconds(5)));
      });
    }
    (void)world.run(std::chrono::seconds(60));
    return happened;
  }

  World world;
  bool happened = false;
};

// Whether the program's outcome comes about under any seed.
bool possible(const Network& network, const std::array<Litmus::Program, 3>& programs) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Litmus litmus(static_cast<std::uint64_t>(seed), network);
    if (litmus.run(programs)) return true;
  }
  return false;
}

using Side = Litmus::Side;

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

// ---- Rule 5: nobody is certainly gone ----

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

// It looked, was stopped, and acts on what it saw when all has changed: why a lease is no permission.
TEST(SimLitmus, APausedProcessActsOnWhatItSawLongAgo) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 if (me.read(kTarget, 0) != 0) return;  // "the lock is mine"
                                                 me.write(kTarget, 8, 1);
                                               },
                                               [](Side& me) {
                                                 me.litmus.world.pause(kWriter, std::chrono::milliseconds(50));
                                                 me.write(kTarget, 0, 1);  // "the lock is somebody else's"
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

// A WRITE completed, and then its poster computes: nobody sees the WRITE until the poster calls again.
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
