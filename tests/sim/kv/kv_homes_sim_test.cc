// How long a session waits for a primary that may have been replaced (src/kv/client/homes.h), by a clock that nothing
// but waiting moves.
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "kv/client/homes.h"
#include "sim/world.h"

namespace farside::sim {
namespace {

using namespace std::chrono_literals;
using kv::Homes;

constexpr team::Rank kSession = 0;
constexpr team::Rank kPrimary = 1;
constexpr team::Rank kStandby = 2;
constexpr std::uint64_t kEpoch = 0;  // where the words are, in each process's region
constexpr std::uint64_t kAlone = 64;

/// Of a partition whose key every search is for. What it looks for is found when it is given enough time.
class SlowSource final : public kv::VersionSource {
 public:
  SlowSource(Fabric& fabric, Duration takes) : fabric_(fabric), takes_(takes) {}

  Outcome find(std::span<kv::Search* const> /*searches*/, std::span<const kv::Timestamp> /*candidates*/,
               Deadline deadline) override {
    const Duration has = deadline.at - fabric_.now();
    fabric_.sleep(std::min(has, takes_));
    return has < takes_ ? Outcome::timed_out : Outcome::done;
  }
  void forget_places() override { takes_ = {}; }  // the standby answers at once

 private:
  Fabric& fabric_;
  Duration takes_;
};

/// The session's side of one partition, with its standby on another host.
struct Side {
  Fabric& fabric;
  Wires& wires;
  const team::SymmetricRegion& words;
  Homes& homes;

  /// By the session's clock.
  [[nodiscard]] Duration took(const std::function<void()>& deed) const {
    const Time begin = fabric.now();
    deed();
    return fabric.now() - begin;
  }
  [[nodiscard]] Outcome find(Duration it_takes, Duration timeout) const {
    SlowSource source(fabric, it_takes);
    kv::HomedSource homed(fabric, homes, source);
    kv::Search search{};
    kv::Search* const searches = &search;
    return homed.find({&searches, 1}, {}, fabric.in(timeout));
  }
};

void on_a_session(const std::function<void(Side&)>& deed) {
  Network network;
  network.lands_late = network.answers_late = network.stalls_before_posting = network.clocks_drift = false;
  World world(1, 3, network);
  for (const team::Rank rank : {kSession, kPrimary, kStandby}) {
    world.on(rank, [&, rank] {
      Fabric& fabric = world.fabric(rank);
      const auto words = world.team(rank).allocate("words", 128);
      if (rank != kSession) words->local().word<ControlWord>(kAlone).store(1);
      if (rank != kSession) return fabric.sleep(2min);  // its memory stays
      const auto channel = fabric.open_channel();
      channel->local_fence();
      fabric.sleep(1ms);
      const Homes::Home home{
          .primary = {.memory = {}, .peer = kPrimary, .alone = words->of(kPrimary).word<ControlWord>(kAlone)},
          .standby = Homes::Standby{.promoted = {.memory = {},
                                                 .peer = kStandby,
                                                 .seat = 1,
                                                 .alone = words->of(kStandby).word<ControlWord>(kAlone)},
                                    .told = words->local().word<ControlWord>(kEpoch),
                                    .epoch = words->of(kStandby).word<ControlWord>(kEpoch)},
          .lease = kv::kLease};
      Homes homes(fabric, *channel, {home}, [](kv::ServerNumber) { return Homes::StandbyIs::joined; });
      Side side{fabric, world.wires(), *words, homes};
      deed(side);
    });
  }
  EXPECT_TRUE(world.run(2h));
}

// 250 ms, 500 ms and 1 s are not enough.
TEST(KvHomes, AReadIsGivenMoreTimeEachTime) {
  on_a_session([](Side& side) {
    const Duration took = side.took([&] { EXPECT_EQ(side.find(1500ms, 1min), Outcome::done); });
    EXPECT_GT(took, 1500ms);
    EXPECT_LT(took, 5s);
  });
}

TEST(KvHomes, AReadEndsByItsDeadline) {
  on_a_session([](Side& side) {
    const Duration took = side.took([&] { EXPECT_EQ(side.find(1h, 3s), Outcome::timed_out); });
    EXPECT_LT(took, 3100ms);
  });
}

// A reader that waits for a primary without looking away from it would wait until its deadline.
TEST(KvHomes, AReadOfAPrimaryThatIsSilentFindsThatTheStandbyServes) {
  on_a_session([](Side& side) {
    side.words.local().word<ControlWord>(kEpoch).store(1);  // it was told while it waits
    const Duration took = side.took([&] { EXPECT_EQ(side.find(1h, 1min), Outcome::done); });
    EXPECT_LT(took, 300ms);
  });
}

// The standby is not reached. So the primary is asked, which needs no lease; there must be time left for that.
TEST(KvHomes, ALeaseLeavesTimeToAskThePrimary) {
  on_a_session([](Side& side) {
    side.wires.cut(kSession, kStandby);
    const Duration took = side.took([&] { EXPECT_TRUE(side.homes.is_trusted(0, side.fabric.in(100ms))); });
    EXPECT_LT(took, 100ms);
  });
}

}  // namespace
}  // namespace farside::sim
