// As litmus_test.cc and fault_litmus_test.cc, of what real networks and machines do beyond single operations: an
// owner's own accesses, links that are replaced, signals, revocation, suspended machines, and orders that uniform
// delays miss.
#include <gtest/gtest.h>

#include "tests/sim/fabric/litmus.h"

namespace farside::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// ---- An owner's own accesses

// The first word is there before the second. A copy of both at one moment never has the second alone.
TEST(SimLitmus, AnOwnersCopyIsNoSnapshot) {
  const Litmus::Program write = [](Side& me) {
    me.write(kTarget, 0, 1);
    me.flush(kTarget);
    me.write(kTarget, 8, 1);
  };
  const Litmus::Program copy = [](Side& me) {
    std::array<std::uint64_t, 2> words{};
    while (words[1] == 0) {
      me.memory->local().copy_out(0, std::as_writable_bytes(std::span(words)));
      me.litmus.happened |= words[0] == 0 && words[1] == 1;
      me.litmus.world.fabric(me.rank).sleep(std::chrono::nanoseconds(100));
    }
  };
  const std::array<Litmus::Program, 3> program{write, Litmus::Program{}, copy};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.interleaves_accesses = true;
  EXPECT_TRUE(possible(network, program));
}

// It stores word after word, and a peer comes in between. Each word is whole.
TEST(SimLitmus, AnOwnerStoresACopyWordByWord) {
  const Litmus::Program look = [](Side& me) {
    me.wait_for(kTarget, 0, 1);
    me.litmus.happened = me.read(kTarget, 8) == 0;
  };
  const Litmus::Program copy = [](Side& me) {
    const std::array<std::uint64_t, 2> words{1, 1};
    me.memory->local().copy_in(0, std::as_bytes(std::span(words)));
  };
  const std::array<Litmus::Program, 3> program{Litmus::Program{}, look, copy};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.interleaves_accesses = true;
  EXPECT_TRUE(possible(network, program));
}

// ---- Links that are replaced

// A WRITE has completed and was not flushed when a READ from the same peer is given up.
std::array<Litmus::Program, 3> write_and_give_up(const std::function<bool(Side&)>& then) {
  return {[then](Side& me) {
            World& world = me.litmus.world;
            const auto process = [&](team::Rank rank) { return world.fabric(rank).process(); };
            me.write(kTarget, 0, 7);
            world.wires().stall(process(kWriter), process(kTarget), microseconds(20));
            const Deadline soon = world.fabric(me.rank).in(microseconds(10));
            if (me.channel->load(me.memory->of(kTarget).word<ControlWord>(16), soon).done()) return;
            me.litmus.happened = then(me);
          },
          {},
          {}};
}

bool is_lost(Side& me) {
  me.litmus.world.fabric(me.rank).sleep(milliseconds(20));
  return me.read(kTarget, 0) == 0;
}

TEST(SimLitmus, ATimeOutMayLoseWhatHadCompleted) {
  const auto program = write_and_give_up([](Side& me) { return is_lost(me); });
  Network network = tame();
  network.completes_before_visible = true;
  EXPECT_FALSE(possible(network, program));
  network.replaces_links = true;
  EXPECT_TRUE(possible(network, program));
}

TEST(SimLitmus, AFlushAndAFenceTellOfWhatWasLostWithALink) {
  Network network = tame();
  network.completes_before_visible = true;
  network.replaces_links = true;
  EXPECT_TRUE(possible(network, write_and_give_up([](Side& me) {
                         return me.channel->flush(kTarget, me.soon()) == Outcome::timed_out && is_lost(me);
                       })));
  EXPECT_FALSE(possible(network, write_and_give_up([](Side& me) {
                          return me.channel->flush(kTarget, me.soon()) == Outcome::done && is_lost(me);
                        })));
  EXPECT_FALSE(possible(network, write_and_give_up([](Side& me) {
                          return me.channel->fence(kTarget, me.soon()) == Outcome::done && is_lost(me);
                        })));
  EXPECT_FALSE(possible(network, write_and_give_up([](Side& me) {
                          const auto word = me.memory->of(kTarget).word<ControlWord>(8);
                          return me.channel->write_signal(word, 1, me.soon()) == Outcome::done && is_lost(me);
                        })));
}

// Once a flush has succeeded nothing of it lands any more.
TEST(SimLitmus, NothingOfAReplacedLinkLandsAfterAFlush) {
  const auto lands_later = [](bool flushes) {
    return write_and_give_up([flushes](Side& me) {
      const Outcome first = me.channel->flush(kTarget, me.soon());
      if (flushes && first != Outcome::done) {
        EXPECT_EQ(me.channel->flush(kTarget, me.soon()), Outcome::done);
      }
      return me.read(kTarget, 0) == 0 && !is_lost(me);
    });
  };
  Network network = tame();
  network.completes_before_visible = true;
  network.replaces_links = true;
  network.lands_late = true;
  EXPECT_TRUE(possible(network, lands_later(false)));
  EXPECT_FALSE(possible(network, lands_later(true)));
}

// Signals report for themselves: a flush has the same report to make.
TEST(SimLitmus, ASignalTakesNoReportFromAFlush) {
  Network network = tame();
  network.completes_before_visible = true;
  network.replaces_links = true;
  const auto signal = [](Side& me) {
    return me.channel->write_signal(me.memory->of(kTarget).word<ControlWord>(8), 1, me.soon());
  };
  EXPECT_TRUE(possible(network, write_and_give_up([&](Side& me) {
                         return signal(me) == Outcome::timed_out && signal(me) == Outcome::done && is_lost(me);
                       })));
  EXPECT_FALSE(possible(network, write_and_give_up([&](Side& me) {
                          (void)signal(me);
                          return me.channel->flush(kTarget, me.soon()) == Outcome::done && is_lost(me);
                        })));
}

// The second one says done, with nothing under way from before.
TEST(SimLitmus, NothingOfAReplacedLinkLandsAfterASignal) {
  const auto lands_later = [](bool signals_again) {
    return write_and_give_up([signals_again](Side& me) {
      const auto word = me.memory->of(kTarget).word<ControlWord>(8);
      const Outcome first = me.channel->write_signal(word, 1, me.soon());
      if (signals_again && first != Outcome::done) {
        EXPECT_EQ(me.channel->write_signal(word, 1, me.soon()), Outcome::done);
      }
      return me.read(kTarget, 0) == 0 && !is_lost(me);
    });
  };
  Network network = tame();
  network.completes_before_visible = true;
  network.replaces_links = true;
  network.lands_late = true;
  EXPECT_TRUE(possible(network, lands_later(false)));
  EXPECT_FALSE(possible(network, lands_later(true)));
}

// Its poster hears that the link broke, and it has taken effect.
TEST(SimLitmus, AnAtomicOverALinkThatBreaksMayHaveTakenEffect) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 const auto word = me.memory->of(kTarget).word<AtomicWord>(0);
                                                 std::uint64_t done = 0;
                                                 bool broke = false;
                                                 for (int i = 0; i < 20; ++i) {
                                                   const Result<std::uint64_t> old =
                                                       me.channel->fetch_add(word, 1, me.soon());
                                                   broke |= old.status == Outcome::link_lost;
                                                   done += old.done() ? 1 : 0;
                                                 }
                                                 me.litmus.happened = broke && me.read(kTarget, 0) > done;
                                               },
                                               {},
                                               {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.breaks_links = true;
  EXPECT_TRUE(possible(network, program));
}

TEST(SimLitmus, AProcesssLinkToItselfBreaksAsWell) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 const auto word = me.memory->of(kWriter).word<AtomicWord>(0);
                                                 for (int i = 0; i < 20; ++i) {
                                                   const Result<std::uint64_t> old =
                                                       me.channel->fetch_add(word, 1, me.soon());
                                                   me.litmus.happened |= old.status == Outcome::link_lost;
                                                 }
                                               },
                                               {},
                                               {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.breaks_links = true;
  EXPECT_TRUE(possible(network, program));
}

using Wait = Outcome (Channel::*)(PeerId, Deadline);

// The flush, or fence, itself takes too long, and what had completed goes with its link. That call has told of it;
// `then` says whether what it looks for has happened afterwards.
std::array<Litmus::Program, 3> write_and_wait_too_briefly(Wait wait, const std::function<bool(Side&)>& then) {
  return {[wait, then](Side& me) {
            World& world = me.litmus.world;
            me.write(kTarget, 0, 7);
            world.wires().stall(world.fabric(kWriter).process(), world.fabric(kTarget).process(), microseconds(20));
            const Deadline soon = world.fabric(me.rank).in(microseconds(10));
            me.litmus.happened = (*me.channel.*wait)(kTarget, soon) == Outcome::timed_out && then(me);
          },
          {},
          {}};
}

std::array<Litmus::Program, 3> write_and_flush_too_briefly(const std::function<bool(Side&)>& then) {
  return write_and_wait_too_briefly(&Channel::flush, then);
}

TEST(SimLitmus, AFlushThatTimesOutMayLoseWhatHadCompleted) {
  Network network = tame();
  network.completes_before_visible = true;
  const auto program = write_and_flush_too_briefly([](Side& me) { return is_lost(me); });
  EXPECT_FALSE(possible(network, program));
  network.flushes_replace_links = true;
  EXPECT_TRUE(possible(network, program));
  EXPECT_FALSE(possible(network, write_and_flush_too_briefly([](Side& me) {
                          return me.channel->fence(kTarget, me.soon()) == Outcome::done && is_lost(me);
                        })));
}

TEST(SimLitmus, AFenceThatTimesOutMayLoseWhatHadCompleted) {
  Network network = tame();
  network.completes_before_visible = true;
  network.flushes_replace_links = true;
  const auto fence_and = [](const std::function<bool(Side&)>& then) {
    return write_and_wait_too_briefly(&Channel::fence, then);
  };
  EXPECT_FALSE(possible(network, fence_and([](Side&) { return true; })));
  network.fences_flush = true;
  EXPECT_TRUE(possible(network, fence_and(is_lost)));
  EXPECT_FALSE(possible(network, fence_and([](Side& me) {
                          return me.channel->flush(kTarget, me.soon()) == Outcome::done && is_lost(me);
                        })));
}

TEST(SimLitmus, NothingLandsAfterTheFlushThatFollowsOneThatTimedOut) {
  const auto lands_later = [](bool flushes_again) {
    return write_and_flush_too_briefly([flushes_again](Side& me) {
      if (flushes_again) {
        EXPECT_EQ(me.channel->flush(kTarget, me.soon()), Outcome::done);
      }
      return me.read(kTarget, 0) == 0 && !is_lost(me);
    });
  };
  Network network = tame();
  network.completes_before_visible = true;
  network.flushes_replace_links = true;
  network.lands_late = true;
  EXPECT_TRUE(possible(network, lands_later(false)));
  EXPECT_FALSE(possible(network, lands_later(true)));
}

// ---- Signals

// How long a sleeper sleeps after the word has changed.
std::array<Litmus::Program, 3> sleep_until_written(bool signals) {
  return {[signals](Side& me) {
            me.litmus.world.fabric(me.rank).sleep(milliseconds(10));
            if (!signals) return me.write(kReader, 0, 1);
            (void)me.channel->write_signal(me.memory->of(kReader).word<ControlWord>(0), 1, me.soon());
          },
          [](Side& me) {
            const auto is_there = [](std::uint64_t value) { return value == 1; };
            const Time start = me.litmus.world.scheduler().now();
            EXPECT_EQ(me.channel->wait_until(me.memory->local(), me.own(0), is_there, me.soon()), Outcome::done);
            me.litmus.happened = me.litmus.world.scheduler().now() - start > milliseconds(11);
          },
          {}};
}

TEST(SimLitmus, ASleeperSeesAWriteWithoutASignalLate) {
  Network network = tame();
  EXPECT_FALSE(possible(network, sleep_until_written(false)));
  network.misses_plain_writes = true;
  EXPECT_TRUE(possible(network, sleep_until_written(false)));
  EXPECT_FALSE(possible(network, sleep_until_written(true)));
}

// The same, and the word is READ again and again from then on, by a channel that has signalled to another process. (Any
// of these that woke the sleeper would have it see the WRITE at once.)
TEST(SimLitmus, ASleeperIsNotWokenByReads) {
  std::array<Litmus::Program, 3> programs = sleep_until_written(false);
  programs[kWriter] = [write = programs[kWriter]](Side& me) {
    (void)me.channel->write_signal(me.memory->of(kTarget).word<ControlWord>(0), 1, me.soon());
    write(me);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(me.read(kReader, 0), 1U);
  };
  Network network = tame();
  network.misses_plain_writes = true;
  EXPECT_TRUE(possible(network, programs));
}

// ---- Revocation and regions that go

TEST(SimLitmus, ARevocationThatTimedOutMayHaveTakenTheAccess) {
  const auto ends_as = [](Outcome outcome, std::uint64_t landed) {
    const Litmus::Program take = [=](Side& me) {
      SimFabric& fabric = me.litmus.world.fabric(me.rank);
      const bool is_so = fabric.revoke(kWriter, fabric.in(microseconds(500))) == outcome;
      fabric.sleep(milliseconds(30));
      me.litmus.happened = is_so && me.own(0).load() == landed;
    };
    const Litmus::Program write = [](Side& me) {
      me.litmus.world.fabric(me.rank).sleep(milliseconds(20));
      me.write(kTarget, 0, 7);
    };
    return std::array<Litmus::Program, 3>{write, {}, take};
  };
  Network network = tame();
  network.revoking_kills = false;
  EXPECT_FALSE(possible(network, ends_as(Outcome::timed_out, 0)));
  network.revokes_slowly = true;
  EXPECT_TRUE(possible(network, ends_as(Outcome::timed_out, 0)));
  EXPECT_TRUE(possible(network, ends_as(Outcome::timed_out, 7)));
  EXPECT_TRUE(possible(network, ends_as(Outcome::done, 0)));
  EXPECT_FALSE(possible(network, ends_as(Outcome::done, 7)));
}

TEST(SimLitmus, ARegionThatIsGoneReadsAsZeros) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 me.wait_for(kTarget, 0, 7);
                                                 me.litmus.world.fabric(me.rank).sleep(milliseconds(10));
                                                 me.litmus.happened = me.read(kTarget, 0) == 0;
                                               },
                                               {},
                                               [](Side& me) {
                                                 me.own(0).store(7);
                                                 me.litmus.world.fabric(me.rank).sleep(milliseconds(5));
                                                 me.memory.reset();
                                               }};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.freed_reads_blank = true;
  EXPECT_TRUE(possible(network, program));
}

// ---- Clocks

TEST(SimLitmus, ASuspendedMachinesClockStandsStill) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 SimFabric& fabric = me.litmus.world.fabric(me.rank);
                                                 Scheduler& scheduler = me.litmus.world.scheduler();
                                                 me.litmus.world.pause(me.rank, milliseconds(50));
                                                 const Time by_clock = fabric.now();
                                                 const Time start = scheduler.now();
                                                 fabric.sleep(milliseconds(1));
                                                 EXPECT_GE(scheduler.now() - start, milliseconds(50));
                                                 me.litmus.happened = fabric.now() - by_clock < milliseconds(2);
                                               },
                                               {},
                                               {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.clocks_stop = true;
  EXPECT_TRUE(possible(network, program));
}

// ---- Priorities

// The writer stands still at one step, neither its first nor its last, while the reader takes twenty.
TEST(SimLitmus, PrioritiesHaveOneStandStillWhileAnotherTakesManySteps) {
  const std::array<Litmus::Program, 3> program{[](Side& me) {
                                                 for (std::uint64_t i = 1; i <= 20; ++i) me.write(kTarget, 0, i);
                                               },
                                               [](Side& me) {
                                                 const std::uint64_t before = me.read(kTarget, 0);
                                                 for (int i = 0; i < 20; ++i) (void)me.read(kTarget, 8);
                                                 const std::uint64_t after = me.read(kTarget, 0);
                                                 me.litmus.happened = before == after && before != 0 && before != 20;
                                               },
                                               {}};
  Network network = tame();
  EXPECT_FALSE(possible(network, program));
  network.prioritizes = true;
  EXPECT_TRUE(possible(network, program));
}

}  // namespace
}  // namespace farside::sim
