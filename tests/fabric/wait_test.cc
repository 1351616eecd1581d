// Conformance: a wait ends when its word changes, when its deadline passes or when a peer is lost, and costs no CPU
// meanwhile.
#include <array>
#include <ctime>
#include <thread>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "tests/support/mesh.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

constexpr auto never = [](std::uint64_t) { return false; };

// The deadline ends a wait, and never before it has passed.
TEST(Wait, EndsAtItsDeadlineAndNotBefore) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const Deadline deadline = mesh.fabric->in(std::chrono::milliseconds(50));
    EXPECT_EQ(mesh.channel->wait_until(*mesh.local, mesh.local->word<ControlWord>(0), never, deadline),
              Outcome::timed_out);
    EXPECT_GE(mesh.fabric->now(), deadline.at);
  });
  fleet.expect_success();
}

// What holds already needs no waiting, however late it is.
TEST(Wait, IsDoneAtOnceWhenItHolds) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto zero = [](std::uint64_t value) { return value == 0; };
    EXPECT_EQ(mesh.channel->wait_until(*mesh.local, mesh.local->word<ControlWord>(0), zero, Deadline{}), Outcome::done);
  });
  fleet.expect_success();
}

// Several add to one word, and wake who waits for the sum. Each addition comes after what its channel wrote before.
TEST(Wait, EndsWhenSeveralHaveAddedTheirSignals) {
  Fleet fleet(3, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    if (me.index() == 0) {
      const auto both = [](std::uint64_t sum) { return sum == 3; };
      ASSERT_EQ(mesh.channel->wait_until(*mesh.local, mesh.local->word<AtomicWord>(0), both, mesh.deadline()),
                Outcome::done);
      mesh.channel->local_fence();
      for (const PeerId peer : {1U, 2U}) EXPECT_EQ(mesh.local->word<ControlWord>(8 * peer).load(), peer);
    } else {
      EXPECT_EQ(mesh.channel->store(mesh.at(0).word<ControlWord>(8 * me.index()), me.index(), mesh.deadline()),
                Outcome::done);
      EXPECT_TRUE(mesh.channel->add_signal(mesh.at(0).word<AtomicWord>(0), me.index(), mesh.deadline()).done());
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A peer that is lost while others wait for it, or was so before, ends their wait long before the deadline.
TEST(Wait, EndsWhenAPeerIsLost) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    constexpr std::array<PeerId, 2> kPeers{5, 7};
    const Deadline deadline = mesh.fabric->in(std::chrono::minutes(10));
    const auto wait = [&] {
      return mesh.channel->wait_until(*mesh.local, mesh.local->word<ControlWord>(0), never, deadline, kPeers);
    };
    std::thread other([&] {
      mesh.fabric->sleep(std::chrono::milliseconds(20));  // so that the wait sleeps, most times; either way it ends
      mesh.fabric->mark_lost(7);
    });
    EXPECT_EQ(wait(), Outcome::peer_lost);
    other.join();
    EXPECT_EQ(wait(), Outcome::peer_lost);
  });
  fleet.expect_success();
}

// The loss of another peer is no reason to give up.
TEST(Wait, GoesOnWhenAnotherPeerIsLost) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    constexpr std::array<PeerId, 1> kPeers{5};
    mesh.fabric->mark_lost(7);
    const Deadline deadline = mesh.fabric->in(std::chrono::milliseconds(20));
    EXPECT_EQ(mesh.channel->wait_until(*mesh.local, mesh.local->word<ControlWord>(0), never, deadline, kPeers),
              Outcome::timed_out);
  });
  fleet.expect_success();
}

// No peer announces a plain WRITE or an atomic: a thread that waits for one polls with exponential backoff.
TEST(Wait, FindsWhatNoPeerAnnounced) {
  Fleet fleet(2, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    if (me.index() == 0) {
      const auto five = [](std::uint64_t value) { return value == 5; };
      EXPECT_EQ(mesh.channel->wait_until(*mesh.local, mesh.local->word<AtomicWord>(8), five, mesh.deadline()),
                Outcome::done);
    } else {
      EXPECT_TRUE(mesh.channel->fetch_add(mesh.at(0).word<AtomicWord>(8), 5, mesh.deadline()).done());
    }
    me.barrier();
  });
  fleet.expect_success();
}

// Several threads wait on words of one region; each signal ends its own wait.
TEST(Wait, EachWaiterGetsItsSignal) {
  constexpr std::uint64_t kWaiters = 4;
  Fleet fleet(2, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    if (me.index() == 0) {
      std::vector<std::thread> waiters;
      for (std::uint64_t i = 0; i < kWaiters; ++i) {
        waiters.emplace_back([&, i] {
          const std::unique_ptr<Channel> channel = mesh.fabric->open_channel();
          const auto mine = [i](std::uint64_t value) { return value == i + 1; };
          EXPECT_EQ(channel->wait_until(*mesh.local, mesh.local->word<ControlWord>(i * 8), mine, mesh.deadline()),
                    Outcome::done);
        });
      }
      for (std::thread& waiter : waiters) waiter.join();
    } else {
      for (std::uint64_t i = 0; i < kWaiters; ++i) {
        const auto word = mesh.at(0).word<ControlWord>(i * 8);
        EXPECT_EQ(mesh.channel->write_signal(word, i + 1, mesh.deadline()), Outcome::done);
      }
    }
    me.barrier();
  });
  fleet.expect_success();
}

// Two cores, eight processes: a process that waits must leave the CPU to the others.
TEST(Wait, CostsNoCpu) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto cpu_seconds = [] {
      std::timespec time{};
      ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    };
    const double before = cpu_seconds();
    const Deadline deadline = mesh.fabric->in(std::chrono::seconds(1));
    EXPECT_EQ(mesh.channel->wait_until(*mesh.local, mesh.local->word<ControlWord>(0), never, deadline),
              Outcome::timed_out);
    // An emulated core is charged with what the machine that emulates it gave to others.
    EXPECT_LT(cpu_seconds() - before, std::chrono::duration<double>(extended(std::chrono::milliseconds(50))).count());
  });
  fleet.expect_success();
}

// Nothing would wake a waiter in one region for a word of another.
TEST(Wait, RefusesAWordOfAnotherRegion) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const std::unique_ptr<Region> other = mesh.fabric->create_region("another", 4096);
    const auto zero = [](std::uint64_t word) { return word == 0; };
    EXPECT_THROW((void)mesh.channel->wait_until(*mesh.local, other->word<ControlWord>(0), zero, mesh.deadline()),
                 UsageError);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
