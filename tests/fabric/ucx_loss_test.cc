// What the UCX engine makes of peers that die, stop and are shut out.
#include <csignal>

#include <gtest/gtest.h>

#include "tests/fabric/ucx_node.h"

namespace farside::test {
namespace {

// A process that waits for a killed process must learn of the death in time, whatever it waits for; others go on.
TEST(UcxEngine, KilledPeerIsLostAndOthersGoOn) {
  Shared<std::atomic<bool>> over;  // a barrier would wait for the killed one
  Fleet fleet(3, [&over](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 1;
    if (me.index() == 0) {
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.write(2, 0, &value, 8), Outcome::done);
    }
    me.barrier();
    if (me.index() == 1) ::raise(SIGKILL);
    if (me.index() != 0) return (void)eventually([&] { return over->load(); });

    const Time killed = monotonic_now();
    while (node.read(1, 0, &value, 8) == Outcome::done) {
    }
    EXPECT_TRUE(eventually([&] { return node.engine->lost(1); }, 2s));
    EXPECT_LT(monotonic_now() - killed, 2s);
    EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::peer_lost);
    EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::peer_lost);
    EXPECT_EQ(node.write(2, 8, &value, 8), Outcome::done);
    EXPECT_EQ(node.channel->flush(2, default_deadline()), Outcome::done);
    EXPECT_FALSE(node.engine->lost(2));
    *over = true;
  });
  EXPECT_TRUE(WIFSIGNALED(fleet.wait(1)));
  fleet.expect_success();
}

// One who never posted to a peer has only the engine's lifeline to learn its death by.
TEST(UcxEngine, DeathIsNoticedWithoutAnyTraffic) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const int events = node.events;
    me.barrier();
    if (me.index() == 1) ::raise(SIGKILL);
    EXPECT_TRUE(eventually([&] { return node.engine->lost(1); }, 2s));
    EXPECT_TRUE(eventually([&] { return node.events > events; }));
  });
  EXPECT_TRUE(WIFSIGNALED(fleet.wait(1)));
  fleet.expect_success();
}

// An operation that timed out must not touch its buffer when the peer goes on; and the channel must be of use again.
TEST(UcxEngine, StoppedPeerTimesOutAndDoesNoHarmLater) {
  Fleet fleet(2, [](Member& me) {
    Node node(1 << 20);
    node.meet(me);
    if (me.index() == 0) {
      std::uint64_t value = 1;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
      const pid_t target = std::stoi(me.exchange("")[1]);
      stop(target);

      std::vector<std::uint64_t> into(100000, 7);
      const Time started = monotonic_now();
      EXPECT_EQ(node.read(1, 0, into.data(), into.size() * 8, in(200ms)), Outcome::timed_out);
      EXPECT_LT(monotonic_now() - started, 2s);
      EXPECT_EQ(node.run(Kind::fetch_add, 1, 8, &value, 8, in(50ms), 1), Outcome::timed_out);

      ASSERT_EQ(::kill(target, SIGCONT), 0);
      EXPECT_EQ(node.read(1, 0, &value, 8), Outcome::done);
      EXPECT_EQ(value, 1u);
      EXPECT_EQ(into, std::vector<std::uint64_t>(100000, 7));
    } else {
      me.exchange(std::to_string(::getpid()));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A WRITE may be lost with the endpoint that a time-out closed, so the next flush must not say done.
TEST(UcxEngine, FlushReportsWritesThatATimeOutMayHaveLost) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    if (me.index() == 0) {
      std::uint64_t value = 1;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
      const pid_t target = std::stoi(me.exchange("")[1]);
      stop(target);
      EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      EXPECT_EQ(node.read(1, 0, &value, 8, in(50ms)), Outcome::timed_out);
      ASSERT_EQ(::kill(target, SIGCONT), 0);
      EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::timed_out);
      EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
    } else {
      me.exchange(std::to_string(::getpid()));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A WRITE that timed out may be on its way for long. Once a flush said done it must not overwrite what others wrote.
TEST(UcxEngine, WritesThatTimedOutAreOverWhenALaterFlushIsDone) {
  constexpr std::uint64_t kWords = 1 << 12;  // what sockets hold (fabric_ucx.md, "Limits")
  Fleet fleet(2, [](Member& me) {
    Node node(8 * kWords);
    node.meet(me);
    if (me.index() == 0) {
      std::vector<std::uint64_t> first(kWords, 1);
      std::vector<std::uint64_t> second(kWords, 2);
      auto other = node.engine->open_channel();
      const pid_t target = std::stoi(me.exchange("")[1]);
      for (int round = 0; round < 5; ++round) {
        ASSERT_EQ(node.write(1, 0, first.data(), 8), Outcome::done);
        stop(target);
        std::uint64_t word = 0;
        EXPECT_EQ(node.write(1, 0, first.data(), 8 * kWords), Outcome::done);
        EXPECT_EQ(node.read(1, 0, &word, 8, in(50ms)), Outcome::timed_out);
        for (int i = 0; i < 3; ++i) EXPECT_EQ(node.channel->flush(1, in(10ms)), Outcome::timed_out);
        ASSERT_EQ(::kill(target, SIGCONT), 0);
        EXPECT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
        std::swap(node.channel, other);
        ASSERT_EQ(node.write(1, 0, second.data(), 8 * kWords), Outcome::done);
        ASSERT_EQ(node.channel->flush(1, default_deadline()), Outcome::done);
        for (int look = 0; look < 50; ++look) {
          std::vector<std::uint64_t> found(kWords);
          ASSERT_EQ(node.read(1, 0, found.data(), 8 * kWords), Outcome::done);
          ASSERT_EQ(found, second);
        }
      }
    } else {
      me.exchange(std::to_string(::getpid()));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// What a revoked peer posts must not land; it learns that it is out, and the others go on.
TEST(UcxEngine, RevokedPeerReachesNothingAnyMore) {
  Fleet fleet(3, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = me.index();
    if (me.index() != 0) {
      ASSERT_EQ(node.write(0, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(0, default_deadline()), Outcome::done);
    }
    me.barrier();
    if (me.index() == 0) {
      EXPECT_EQ(node.engine->revoke(node.engine->peer(1), default_deadline()), Outcome::done);
      std::atomic_ref(node.words[1]).store(0);
      std::atomic_ref(node.words[2]).store(0);
    }
    me.barrier();
    if (me.index() != 0) {
      const Outcome expected = me.index() == 1 ? Outcome::peer_lost : Outcome::done;
      (void)node.write(0, me.index() * 8, &value, 8);
      EXPECT_EQ(node.channel->flush(0, default_deadline()) == Outcome::done,
                me.index() == 2);  // else a lost link or peer
      // Then it would have to come in by a new endpoint, and is turned away.
      EXPECT_TRUE(eventually([&] { return node.read(0, 0, &value, 8) == expected; }));
    }
    me.barrier();
    if (me.index() == 0) {
      EXPECT_EQ(look(node.words[1]), 0u);
      EXPECT_EQ(look(node.words[2]), 2u);
    }
    me.barrier();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
