// A channel, an engine or a process that goes while a connection is being set up, at either end of it and in whatever
// way, harms no other process: UCX 1.13 aborts a process whose answer to a connection request waits for a connection
// that breaks (fabric_ucx.md, Link).
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/fabric/ucx_node.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

/// Connects with a new channel, and gives it up after `timeout`, which may be before it is connected.
void connect_for(Node& node, PeerId peer, Duration timeout) {
  std::uint64_t value = 0;
  node.channel = node.engine->open_channel();
  (void)node.read(peer, 0, &value, 8, in(timeout));
  node.channel.reset();
}

void expect_reach(Node& node, PeerId peer) {
  std::uint64_t value = 0;
  node.channel = node.engine->open_channel();
  EXPECT_EQ(node.read(peer, 0, &value, 8), Outcome::done);
}

// From nothing to more than a connection takes, and all between.
constexpr Duration moment(std::uint64_t attempt) { return attempt % 40 * 50us; }

TEST(UcxParting, OfChannelsThatAreBeingConnectedHarmsNoProcess) {
  Fleet fleet(4, [](Member& me) {
    Node node(4096);
    node.meet(me);
    for (std::uint64_t channel = 0; me.index() != 0 && channel < reduced(150); ++channel) {
      connect_for(node, 0, moment(channel));
    }
    me.barrier();
    expect_reach(node, (me.index() + 1) % me.count());
    me.barrier();
  });
  fleet.expect_success();
}

TEST(UcxParting, OfAnEngineThatOthersConnectToHarmsNoProcess) {
  Fleet fleet(4, [](Member& me) {
    for (std::uint64_t round = 0; round < reduced(20); ++round) {
      auto node = std::make_unique<Node>(4096);
      node->meet(me);
      std::uint64_t value = 0;
      if (me.index() == 0) {
        std::this_thread::sleep_for(moment(7 * round));
        node.reset();
      } else {
        std::vector<std::unique_ptr<UcxChannel>> opened;
        for (std::uint64_t channel = 0; channel < 10; ++channel) {
          node->channel = node->engine->open_channel();
          (void)node->read(0, 0, &value, 8, in(moment(3 * channel)));
          opened.push_back(std::move(node->channel));
        }
        for (auto& channel : opened) {  // which learns only now what became of its connection
          node->channel = std::move(channel);
          EXPECT_EQ(node->read(me.index() % 3 + 1, 0, &value, 8), Outcome::done);
        }
      }
      me.barrier();
    }
  });
  fleet.expect_success();
}

TEST(UcxParting, OfProcessesThatAreKilledHarmsNoSurvivor) {
  constexpr unsigned kSurvivors = 2;
  constexpr unsigned kKilled = 6;
  for (std::uint64_t round = 0; round < reduced(5); ++round) {
    Shared<std::atomic<bool>> all_are_dead;
    Shared<std::atomic<unsigned>> done;  // a barrier would wait for the dead
    Fleet fleet(kSurvivors + kKilled, [&](Member& me) {
      Node node(4096);
      node.meet(me);
      if (me.index() >= kSurvivors) {
        const std::jthread killer([&] {
          std::this_thread::sleep_for(moment(7 * round + 5 * me.index()));
          ::raise(SIGKILL);
        });
        for (;;) connect_for(node, 0, 1ms);
      }
      EXPECT_TRUE(eventually([&] { return all_are_dead->load(); }));
      expect_reach(node, 1 - me.index());
      ++*done;
      EXPECT_TRUE(eventually([&] { return *done == kSurvivors; }));
    });
    for (unsigned index = kSurvivors; index < kSurvivors + kKilled; ++index) {
      EXPECT_TRUE(WIFSIGNALED(fleet.wait(index)));
    }
    *all_are_dead = true;
    fleet.expect_success();
  }
}

// A stopped process finds, when it goes on, the requests of a peer that was killed after it sent them.
TEST(UcxParting, OfThePeerOfAProcessThatStoodStillDoesNoHarm) {
  for (std::uint64_t round = 0; round < reduced(10); ++round) {
    Shared<std::atomic<bool>> connecting;
    Fleet fleet(2, [&](Member& me) {
      Node node(4096);
      node.meet(me);
      if (me.index() == 0) ::pause();  // until it is killed
      *connecting = true;
      std::uint64_t value = 0;
      for (Outcome outcome = Outcome::done; outcome == Outcome::done;) {
        node.channel = node.engine->open_channel();
        outcome = node.read(0, 0, &value, 8);
      }
      EXPECT_EQ(node.read(1, 0, &value, 8), Outcome::done);
    });
    ASSERT_TRUE(eventually([&] { return connecting->load(); }));
    std::this_thread::sleep_for(moment(7 * round + 3));
    fleet.stop(1);
    fleet.signal(0, SIGKILL);
    fleet.signal(1, SIGCONT);
    EXPECT_EQ(fleet.wait(1), 0);
  }
}

}  // namespace
}  // namespace farside::test
