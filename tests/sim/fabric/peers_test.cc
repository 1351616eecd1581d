// What a node does about a peer that does not answer although no node takes it for dead (src/cache/peers.h).
#include "cache/peers.h"

#include <chrono>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "tests/sim/fabric/litmus.h"

namespace farside::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr team::Rank kHere = 0;
constexpr team::Rank kThere = 1;

class CutOff : public testing::Test {
 protected:
  // Runs `body` on node 0, whose link to node 1 is cut and healed at will.
  void run(const std::function<void()>& body) {
    world_.on(kThere, [this] { there_ = world_.team(kThere).allocate("words", 64); });
    world_.on(kHere, [this, &body] {
      here_ = world_.team(kHere).allocate("words", 64);
      channel_ = world_.fabric(kHere).open_channel();
      peers_ = std::make_unique<cache::Peers>(world_.team(kHere), *here_);
      body();
      channel_.reset();
    });
    ASSERT_TRUE(world_.run(std::chrono::hours(1)));
  }

  void cut() { world_.wires().cut(kHere, kThere); }
  void sleep(Duration duration) { world_.fabric(kHere).sleep(duration); }
  /// How long a look at the other's memory took, and whether it was answered.
  struct Look {
    bool answered;
    Duration took;
  };
  Look look(Duration timeout = seconds(8)) {
    const Time start = world_.fabric(kHere).now();
    const bool answered = peers_->load(*channel_, kThere, 0, world_.fabric(kHere).in(timeout)).done();
    return {answered, world_.fabric(kHere).now() - start};
  }

  World world_{1, 2, tame()};
  std::unique_ptr<team::SymmetricRegion> here_;
  std::unique_ptr<team::SymmetricRegion> there_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<cache::Peers> peers_;
};

// A peer that only this node cannot reach would otherwise cost each request its whole deadline.
TEST_F(CutOff, IsWaitedForOnceAndThenLeftAlone) {
  run([this] {
    EXPECT_TRUE(look().answered);
    cut();
    const Look first = look();
    EXPECT_FALSE(first.answered);
    EXPECT_GE(first.took, cache::time_limits::kPeer);
    EXPECT_LT(first.took, cache::time_limits::kPeer + milliseconds(100));
    EXPECT_FALSE(peers_->reachable(kThere));
    EXPECT_LT(look().took, milliseconds(1));
  });
}

TEST_F(CutOff, IsTriedAgainWithExponentialBackoffButAtLeastOnceAMinute) {
  run([this] {
    cut();
    (void)look();
    for (Duration pause = cache::time_limits::kPeer; pause < 4 * cache::time_limits::kMaxPeerPause; pause *= 2) {
      const Duration expected = std::min<Duration>(pause, cache::time_limits::kMaxPeerPause);
      sleep(expected - milliseconds(100));
      EXPECT_FALSE(peers_->reachable(kThere));
      sleep(milliseconds(200));
      EXPECT_TRUE(peers_->reachable(kThere));
      EXPECT_GE(look().took, cache::time_limits::kPeer);
    }
  });
}

TEST_F(CutOff, IsUsedAsEverOnceItAnswers) {
  run([this] {
    cut();
    (void)look();
    world_.heal();
    EXPECT_LT(look().took, milliseconds(1));  // this node does not know it yet
    sleep(cache::time_limits::kPeer);
    EXPECT_TRUE(look().answered);
    EXPECT_TRUE(look().answered);
  });
}

// A caller with a short deadline has learnt nothing about the peer.
TEST_F(CutOff, IsNotFoundOutByAShortDeadline) {
  run([this] {
    cut();
    EXPECT_LT(look(milliseconds(10)).took, milliseconds(100));
    EXPECT_TRUE(peers_->reachable(kThere));
  });
}

}  // namespace
}  // namespace farside::sim
