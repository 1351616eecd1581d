// What a standby that takes over tells all (src/kv/replication/epoch_words.h), by a channel whose link was replaced
// before.
#include <chrono>

#include <gtest/gtest.h>

#include "kv/replication/epoch_words.h"
#include "sim/world.h"

namespace farside::sim {
namespace {

using namespace std::chrono_literals;

constexpr team::Rank kStandby = 0;
constexpr team::Rank kSession = 1;
constexpr std::uint64_t kEpoch = 0;
constexpr std::uint64_t kOther = 64;

/// Afterwards a flush reports that a WRITE may be lost.
void give_up_a_read(World& world, Channel& channel, const RemoteRegion& region) {
  std::uint64_t one = 1;
  auto& fabric = world.fabric(kStandby);
  EXPECT_EQ(channel.write(region.span(kOther, sizeof one), LocalSpan(one), fabric.in(1s)), Outcome::done);
  world.wires().stall(fabric.process(), world.fabric(kSession).process(), 1ms);
  EXPECT_EQ(channel.load(region.word<ControlWord>(kOther), fabric.in(100us)).status, Outcome::timed_out);
}

/// What the session has been told when the standby may serve. Nothing is ever cut off.
std::uint64_t told_epoch(std::uint64_t seed) {
  Network network;
  network.clocks_drift = false;
  World world(seed, 2, network);
  std::uint64_t told = 0;
  for (const team::Rank rank : {kStandby, kSession}) {
    world.on(rank, [&, rank] {
      Fabric& fabric = world.fabric(rank);
      const auto words = world.team(rank).allocate("words", 128);
      if (rank == kSession) return fabric.sleep(10s);  // its memory stays
      const auto channel = fabric.open_channel();
      const RemoteRegion& region = words->of(kSession);
      give_up_a_read(world, *channel, region);
      const auto cut_off = [](PeerId) {
        ADD_FAILURE() << "a session that answers was cut off";
        return false;
      };
      kv::EpochWords epochs(fabric, *channel, std::nullopt, cut_off);
      epochs.add(region.word<ControlWord>(kEpoch));
      epochs.write(1);
      told = channel->load(region.word<ControlWord>(kEpoch), fabric.in(1s)).value;
    });
  }
  EXPECT_TRUE(world.run(1min));
  return told;
}

TEST(KvEpochWords, ReachASessionWhoseLinkWasReplacedBefore) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) EXPECT_EQ(told_epoch(seed), 1U) << seed;
}

// What cannot be reached may believe the primary until its access is gone.
TEST(KvEpochWords, AreWrittenWhenASessionThatDoesNotAnswerIsCutOff) {
  World world(1, 2, Network{});
  for (const team::Rank rank : {kStandby, kSession}) {
    world.on(rank, [&, rank] {
      auto& fabric = world.fabric(rank);
      const auto words = world.team(rank).allocate("words", 128);
      if (rank == kSession) return fabric.sleep(20s);  // its memory stays
      const auto channel = fabric.open_channel();
      int attempts = 0;
      const auto cut_off = [&attempts](PeerId peer) { return peer == kSession && ++attempts == 2; };
      kv::EpochWords epochs(fabric, *channel, std::nullopt, cut_off);
      epochs.add(words->of(kSession).word<ControlWord>(kEpoch));
      world.wires().stall(fabric.process(), world.fabric(kSession).process(), 10s);
      epochs.write(1);
      EXPECT_EQ(attempts, 2);
    });
  }
  EXPECT_TRUE(world.run(1min));
}

}  // namespace
}  // namespace farside::sim
