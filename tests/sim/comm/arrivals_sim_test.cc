// Epochs that end by counting (src/comm/protocol/arrivals.h), with counters and memory that are used over and over, on
// the harshest network there is: receivers are slow, senders run ahead, and one of them may die.
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "comm/protocol/arrivals.h"
#include "sim/world.h"
#include "tests/sim/disturbance.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

using team::Rank;

constexpr std::uint64_t kEpochs = 14;
constexpr std::uint64_t kMaxCopies = 3;  // of one sender in an epoch
constexpr std::uint64_t kCopyWords = 3;
constexpr Duration kSlow = std::chrono::microseconds(20);  // for which a receiver reads, at most
constexpr Duration kLife = std::chrono::microseconds(600);
constexpr Duration kTimeout = std::chrono::seconds(5);
constexpr Duration kLimit = std::chrono::minutes(10);

struct ArrivalsScenario {
  Rank ranks = 3;
  bool all_receive = false;  ///< otherwise rank 0 alone: nothing holds senders back but its words
  bool dies = false;         ///< one of them
  bool data_before_arrival = true;
  std::uint64_t room = comm::Arrivals::kOpen + 1;  ///< epochs whose data have places of their own
  Disturbance disturbance;
  Network network;
  comm::ArrivalRules rules{};

  /// Ranks may give up.
  [[nodiscard]] bool may_fail() const { return dies || network.breaks_links || !disturbance.is_none(); }
};

ArrivalsScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 7919);
  ArrivalsScenario scenario;
  scenario.ranks = 2 + static_cast<Rank>(dice.random() % 3);
  scenario.all_receive = dice.one_in(2);
  scenario.dies = dice.one_in(3);
  scenario.network = harshest(seed);
  scenario.disturbance = Disturbance::draw(dice, kTimeout);
  return scenario;
}

std::uint64_t copies_of(Rank sender, std::uint64_t epoch) { return 1 + (epoch * 5 + sender * 7) % kMaxCopies; }
std::uint64_t value_of(Rank sender, std::uint64_t epoch, std::uint64_t copy) {
  return (epoch + 1) * 1000 + sender * 10 + copy;
}

class ArrivalsRun {
 public:
  ArrivalsRun(std::uint64_t seed, const ArrivalsScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario.ranks, scenario.network),
        sides_(scenario.ranks),
        senders_(scenario.ranks),
        ended_(scenario.ranks) {
    std::iota(senders_.begin(), senders_.end(), 0);
  }

  [[nodiscard]] World& world() { return world_; }

  // What went wrong.
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < scenario_.ranks; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) fail("a rank was still waiting when the time was over");
    for (Rank rank = 0; rank < receivers(); ++rank) {
      if (!scenario_.may_fail() && ended_[rank] != kEpochs) fail("rank " + std::to_string(rank) + " gave up");
    }
    return violation_;
  }

 private:
  struct Side {
    std::unique_ptr<team::SymmetricRegion> memory;
    std::unique_ptr<comm::Arrivals> arrivals;
  };

  void live(Rank rank) {
    team::Team& team = world_.team(rank);
    Side& side = sides_[rank];
    side.memory = team.allocate("copies", scenario_.room * epoch_bytes());
    side.arrivals = std::make_unique<comm::Arrivals>(team, "arrivals", scenario_.rules);
    if (rank == 0 && scenario_.dies) {
      Scheduler& scheduler = world_.scheduler();
      scheduler.after(scheduler.up_to(kLife),
                      [this] { world_.kill(static_cast<Rank>(world_.scheduler().random() % scenario_.ranks)); });
    }
    if (rank == 0) disturb(world_, scenario_.disturbance, kLife);
    world_.on(rank, [this, rank] { guarded([&] { send(rank); }); });
    if (rank < receivers()) world_.on(rank, [this, rank] { guarded([&] { receive(rank); }); });
  }

  void send(Rank rank) {
    Fabric& fabric = world_.fabric(rank);
    const auto channel = fabric.open_channel();
    const Side& side = sides_[rank];
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      for (Rank to = 0; to < receivers(); ++to) {
        const Deadline deadline = fabric.in(scenario_.disturbance.timeout);
        if (side.arrivals->await_open(*channel, to, epoch, deadline) != Outcome::done) return;  // it is missed there
        for (std::uint64_t copy = 0; copy < copies_of(rank, epoch); ++copy) {
          std::vector<std::uint64_t> data(kCopyWords, value_of(rank, epoch, copy));
          const RemoteSpan there = side.memory->of(to).span(place(epoch, rank, copy), 8 * kCopyWords);
          (void)channel->write(there, LocalSpan(data.data(), there.bytes), deadline);
          const auto word = side.arrivals->word(to, epoch);
          (void)(scenario_.data_before_arrival ? channel->add_signal(word, 1, deadline)
                                               : channel->fetch_add(word, 1, deadline));
        }
      }
    }
  }

  void receive(Rank rank) {
    Fabric& fabric = world_.fabric(rank);
    const auto channel = fabric.open_channel();
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      std::uint64_t count = 0;
      for (const Rank sender : senders_) count += copies_of(sender, epoch);
      const Outcome waited = sides_[rank].arrivals->wait(*channel, epoch, static_cast<std::uint32_t>(count), senders_,
                                                         fabric.in(scenario_.disturbance.timeout));
      if (waited == Outcome::link_lost) fail("an epoch's end is unknown to rank " + std::to_string(rank));
      if (waited != Outcome::done) return;
      fabric.sleep(world_.scheduler().up_to(kSlow));
      for (const Rank sender : senders_) check(rank, sender, epoch);
      ended_[rank] = epoch + 1;
    }
  }

  void check(Rank rank, Rank sender, std::uint64_t epoch) {
    for (std::uint64_t copy = 0; copy < copies_of(sender, epoch); ++copy) {
      for (std::uint64_t at = 0; at < kCopyWords; ++at) {
        const std::uint64_t offset = place(epoch, sender, copy) + 8 * at;
        const std::uint64_t found = sides_[rank].memory->local().word<ControlWord>(offset).load();
        if (found == value_of(sender, epoch, copy)) continue;
        fail("epoch " + std::to_string(epoch) + " ended at rank " + std::to_string(rank) + " with " +
             std::to_string(found) + " from rank " + std::to_string(sender));
      }
    }
  }

  void guarded(const std::function<void()>& body) {
    try {
      body();
    } catch (const UsageError& error) {
      fail(error.what());
    }
  }

  [[nodiscard]] std::uint64_t epoch_bytes() const { return scenario_.ranks * kMaxCopies * 8 * kCopyWords; }
  [[nodiscard]] std::uint64_t place(std::uint64_t epoch, Rank sender, std::uint64_t copy) const {
    return epoch % scenario_.room * epoch_bytes() + (sender * kMaxCopies + copy) * 8 * kCopyWords;
  }
  [[nodiscard]] Rank receivers() const { return scenario_.all_receive ? scenario_.ranks : 1; }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const ArrivalsScenario scenario_;
  World world_;
  std::vector<Side> sides_;
  std::vector<Rank> senders_;
  std::vector<std::uint64_t> ended_;  ///< by receiver
  std::optional<std::string> violation_;
};

constexpr std::uint64_t kSeeds = 300;

TEST(ArrivalsSim, EndEachEpochWithItsOwnCopiesUnderEverySeed) {
  const auto run = [](std::uint64_t seed, FaultCount& count) {
    return run_counted(ArrivalsRun(seed, draw(seed)), count);
  };
  expect_kept(kSeeds, run,
              UnmetList{nothing_is_revoked(),
                        writes_complete_early(),
                        {"READ arrivals", {Fault::landed_given_up}, "a sender that gives up makes no more calls"}});
}

/// Whether what `breaks` breaks is noticed.
template <class Breaks>
bool caught(Breaks breaks) {
  const auto run = [&](std::uint64_t seed) {
    ArrivalsScenario scenario = draw(seed);
    breaks(scenario);
    return ArrivalsRun(seed, scenario).run();
  };
  return first_violation(kSeeds, run).has_value();
}

TEST(ArrivalsSimRules, CatchesACounterThatNamesNoEpoch) {
  EXPECT_TRUE(caught([](ArrivalsScenario& scenario) { scenario.rules.names_epochs = false; }));
}

TEST(ArrivalsSimRules, CatchesASenderThatDoesNotWaitForItsEpoch) {
  EXPECT_TRUE(caught([](ArrivalsScenario& scenario) { scenario.rules.waits_until_open = false; }));
}

TEST(ArrivalsSim, CatchesAnArrivalAheadOfItsData) {
  EXPECT_TRUE(caught([](ArrivalsScenario& scenario) { scenario.data_before_arrival = false; }));
}

// An epoch that has ended is being read while the four after it fill.
TEST(ArrivalsSim, CatchesTooLittleRoomForTheData) {
  EXPECT_TRUE(caught([](ArrivalsScenario& scenario) { scenario.room = comm::Arrivals::kOpen; }));
}

}  // namespace
}  // namespace farside::sim
