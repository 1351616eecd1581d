// Broadcasts that receivers pass on (src/comm/protocol/spread.h) on the harshest network there is: several senders at
// once, sources at other ranks, receivers that change what they got as soon as they are told, some that discard, and a
// death.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "comm/protocol/spread.h"
#include "sim/world.h"
#include "tests/sim/disturbance.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

using team::Rank;

constexpr Rank kSenders = 2;  // ranks 0 and 1
constexpr std::uint64_t kRounds = 4;
constexpr std::uint64_t kMaxWords = 7;
constexpr std::uint64_t kChanged = ~0ULL;                  // what a receiver writes over what it got
constexpr Duration kNap = std::chrono::milliseconds(100);  // at most, of a service thread
constexpr Duration kLook = std::chrono::milliseconds(2);   // whether all is over
constexpr Duration kLife = std::chrono::microseconds(200);
constexpr Duration kTimeout = std::chrono::seconds(5);
constexpr Duration kLimit = std::chrono::seconds(10);

struct SpreadScenario {
  Rank ranks = 6;
  std::optional<Rank> dying{};
  bool sets_back = false;  ///< receivers set their signals back to 0, and senders wait for that before they send again
  Disturbance disturbance;
  Network network;
  comm::Spread::Options options{.piece_bytes = 16};
  comm::SpreadRules rules{};
};

SpreadScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 7919);
  SpreadScenario scenario;
  scenario.ranks = 3 + static_cast<Rank>(dice.random() % 7);
  if (dice.one_in(3)) scenario.dying = dice.one_in(2) ? scenario.ranks - 1 : dice.random() % scenario.ranks;
  scenario.network = harshest(seed);
  scenario.disturbance = Disturbance::draw(dice, kTimeout);
  // Shorter than some stops, and long enough for the six operations of a step.
  if (dice.one_in(3)) scenario.options.step_timeout = std::chrono::milliseconds(1);
  scenario.sets_back = dice.one_in(2);
  return scenario;
}

std::uint64_t words_in(std::uint64_t round) { return (round * 5) % (kMaxWords + 1); }
std::uint64_t value_of(Rank sender, std::uint64_t round, std::uint64_t at) {
  return (sender + 1) * 10'000 + round * 100 + at;
}
/// Depends on the ranks and the round alone, so that all ranks know it.
bool wants(Rank rank, Rank sender, std::uint64_t round) { return (rank * 7 + sender + round) % 4 != 0; }

std::uint64_t last_wanted(Rank rank, Rank sender, std::uint64_t round) {
  while (round != 0 && !wants(rank, sender, round)) --round;
  return round;
}

class SpreadRun {
 public:
  SpreadRun(std::uint64_t seed, const SpreadScenario& scenario)
      : scenario_(scenario), world_(seed, scenario.ranks, scenario.network), sides_(scenario.ranks) {}

  [[nodiscard]] World& world() { return world_; }

  // What went wrong.
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < scenario_.ranks; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) fail("a rank was still waiting when the time was over");
    for (Rank rank = 0; rank < scenario_.ranks; ++rank) look_for_later_writes(rank);
    for (Rank sender = 0; sender < kSenders; ++sender) {
      if (world_.alive(sender) && sides_[sender].sent != kRounds)
        fail("rank " + std::to_string(sender) + " has not sent all");
    }
    return violation_;
  }

 private:
  struct Side {
    std::unique_ptr<team::SymmetricRegion> bells;
    std::unique_ptr<team::SymmetricRegion> memory;
    std::unique_ptr<comm::Spread> spread;
    std::uint64_t rung = 0;
    std::uint64_t sent = 0;
    std::vector<std::uint64_t> told = std::vector<std::uint64_t>(kSenders);      ///< by sender: the last round
    std::vector<std::uint64_t> set_back = std::vector<std::uint64_t>(kSenders);  ///< so as its signal
  };

  // Of each sender: its signal, then a place for each round; then of each sender and round what is sent.
  static std::uint64_t signal_offset(Rank sender) { return 8 * (1 + kRounds * kMaxWords) * sender; }
  static std::uint64_t place_offset(Rank sender, std::uint64_t round) {
    return signal_offset(sender) + 8 + 8 * kMaxWords * (round - 1);
  }
  static std::uint64_t source_offset(Rank sender, std::uint64_t round) {
    return signal_offset(kSenders) + 8 * kMaxWords * (sender * kRounds + round - 1);
  }
  /// The rank that has what is sent.
  [[nodiscard]] Rank source_of(Rank sender, std::uint64_t round) const {
    return round % 2 == 0 ? sender : (sender + static_cast<Rank>(round)) % scenario_.ranks;
  }

  void live(Rank rank) {
    team::Team& team = world_.team(rank);
    Side& side = sides_[rank];
    side.bells = team.allocate("bells", 8);
    side.memory = team.allocate("memory", source_offset(kSenders, 1));
    store_sources(rank);
    const auto ring = [&side, rank](Channel& channel, Rank to, Deadline deadline) {
      const std::uint64_t number = std::uint64_t{rank} << 48U | ++side.rung;
      return channel.write_signal(side.bells->of(to).word<ControlWord>(0), number, deadline);
    };
    side.spread =
        std::make_unique<comm::Spread>(team, "spread", std::vector<const team::SymmetricRegion*>{side.memory.get()},
                                       ring, scenario_.options, scenario_.rules);
    if (team.barrier(team.fabric().in(kTimeout)) != Outcome::done) return;
    if (rank == 0 && scenario_.dying) {
      Scheduler& scheduler = world_.scheduler();
      scheduler.after(scheduler.up_to(kLife), [this] { world_.kill(*scenario_.dying); });
      if (scenario_.disturbance.is_none()) die_after_posting(*scenario_.dying);
    }
    if (rank == 0) disturb(world_, scenario_.disturbance, kLife);
    world_.on(rank, [this, rank] { serve(rank); });
    for (Rank sender = 0; sender < kSenders; ++sender) {
      world_.on(rank, [this, rank, sender] { receive(rank, sender); });
    }
  }

  void store_sources(Rank rank) {
    const Region& memory = sides_[rank].memory->local();
    for (Rank sender = 0; sender < kSenders; ++sender) {
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        for (std::uint64_t at = 0; at < words_in(round); ++at) {
          memory.word<ControlWord>(source_offset(sender, round) + 8 * at).store(value_of(sender, round, at));
        }
      }
    }
    world_.fabric(rank).open_channel()->local_fence();
  }

  // Soon after it has posted something, if it has not died before.
  void die_after_posting(Rank rank) {
    constexpr std::uint64_t kOneIn = 4;  // operations
    world_.fabric(rank).before_each([this, rank](const Operation* /*operation*/) {
      Scheduler& dice = world_.scheduler();
      if (!dice.one_in(kOneIn)) return;
      dice.after(dice.up_to(2 * scenario_.network.latency), [this, rank] { world_.kill(rank); });
    });
  }

  // The service thread; of a sender it begins each broadcast as well.
  void serve(Rank rank) {
    Side& side = sides_[rank];
    Fabric& fabric = world_.fabric(rank);
    const auto channel = fabric.open_channel();
    const auto bell = side.bells->local().word<ControlWord>(0);
    bool under_way = false;
    while (!all_over()) {
      const std::uint64_t heard = bell.load();
      side.spread->serve(*channel);
      if (rank < kSenders && side.sent < kRounds && (under_way || signals_are_set_back(rank, side.sent))) {
        if (!std::exchange(under_way, true)) begin(rank, side.sent + 1);
        const std::optional<Outcome> outcome = side.spread->go_on(*channel);
        if (outcome) {
          under_way = false;
          end(rank, side.sent + 1, *outcome);
          continue;
        }
      }
      const Time awake = fabric.now() + kNap;
      while (bell.load() == heard && fabric.now() < awake && !all_over()) {
        (void)channel->wait_until(
            side.bells->local(), bell, [heard](std::uint64_t now) { return now != heard; }, fabric.in(kLook));
      }
    }
  }

  [[nodiscard]] bool signals_are_set_back(Rank sender, std::uint64_t round) {
    for (Rank rank = 0; scenario_.sets_back && rank < scenario_.ranks; ++rank) {
      const Side& side = sides_[rank];
      if (world_.alive(rank) && side.set_back[sender] < last_wanted(rank, sender, round)) return false;
    }
    return true;
  }

  void begin(Rank sender, std::uint64_t round) {
    Side& side = sides_[sender];
    const std::uint64_t bytes = 8 * words_in(round);
    std::vector<Rank> wanted;
    for (Rank rank = 0; rank < scenario_.ranks; ++rank) {
      if (wants(rank, sender, round)) wanted.push_back(rank);
    }
    side.spread->begin({0, 0, place_offset(sender, round), bytes, signal_offset(sender), round},
                       side.memory->of(source_of(sender, round)).span(source_offset(sender, round), bytes), wanted);
  }

  // A sender that has lost a rank sends no more.
  void end(Rank sender, std::uint64_t round, Outcome outcome) {
    Side& side = sides_[sender];
    if (outcome == Outcome::done) {
      ++side.sent;
      for (Rank rank = 0; rank < scenario_.ranks; ++rank) {
        if (wants(rank, sender, round) && world_.alive(rank) &&
            sides_[rank].memory->local().word<ControlWord>(signal_offset(sender)).load() < round &&
            sides_[rank].told[sender] < round)  // which it looks at last: the signal may be set back
          fail("it ended before rank " + std::to_string(rank) + " was told of round " + std::to_string(round));
      }
      return;
    }
    side.sent = kRounds;
    if (!scenario_.dying || outcome != Outcome::peer_lost)
      fail("a broadcast ended with " + std::string(to_string(outcome)));
  }

  // Looks at what came, and changes it at once.
  void receive(Rank rank, Rank sender) {
    Side& side = sides_[rank];
    const Region& memory = side.memory->local();
    const auto channel = world_.fabric(rank).open_channel();
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      if (!wants(rank, sender, round)) continue;
      const auto signal = memory.word<ControlWord>(signal_offset(sender));
      for (std::uint64_t seen = signal.load(); seen < round; seen = signal.load()) {
        if (scenario_.sets_back && seen != 0) fail("rank " + std::to_string(rank) + " was told twice");
        if (all_over()) return;
        (void)channel->wait_until(
            memory, signal, [round](std::uint64_t now) { return now >= round; }, world_.fabric(rank).in(kLook));
      }
      const auto word = [&](std::uint64_t at) {
        return memory.word<ControlWord>(place_offset(sender, round) + 8 * at);
      };
      for (std::uint64_t at = 0; at < words_in(round); ++at) {
        if (word(at).load() != value_of(sender, round, at)) {
          fail("round " + std::to_string(round) + " of rank " + std::to_string(sender) + " brought " +
               std::to_string(word(at).load()) + " to rank " + std::to_string(rank));
        }
        word(at).store(kChanged);
      }
      channel->local_fence();
      side.told[sender] = round;
      if (!scenario_.sets_back) continue;
      signal.store(0);
      channel->local_fence();
      side.set_back[sender] = round;
    }
  }

  // What the program has stored over the bytes that it was told of is still there.
  void look_for_later_writes(Rank rank) {
    for (Rank sender = 0; sender < kSenders; ++sender) {
      const std::uint64_t signal = sides_[rank].memory->local().word<ControlWord>(signal_offset(sender)).load();
      if (signal != 0 && signal <= sides_[rank].set_back[sender])
        fail("rank " + std::to_string(rank) + " was told twice");
      for (std::uint64_t round = 1; round <= sides_[rank].told[sender]; ++round) {
        for (std::uint64_t at = 0; wants(rank, sender, round) && at < words_in(round); ++at) {
          const std::uint64_t offset = place_offset(sender, round) + 8 * at;
          if (sides_[rank].memory->local().word<ControlWord>(offset).load() == kChanged) continue;
          fail("round " + std::to_string(round) + " of rank " + std::to_string(sender) + " was written again at rank " +
               std::to_string(rank));
        }
      }
    }
  }

  [[nodiscard]] bool all_over() {
    for (Rank sender = 0; sender < kSenders; ++sender) {
      if (world_.alive(sender) && sides_[sender].sent < kRounds) return false;
    }
    return true;
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const SpreadScenario scenario_;
  World world_;
  std::vector<Side> sides_;
  std::optional<std::string> violation_;
};

constexpr std::uint64_t kSeeds = 200;

TEST(SpreadSim, ReachesAllWhoWantItUnderEverySeed) {
  const auto run = [](std::uint64_t seed, FaultCount& count) {
    return run_counted(SpreadRun(seed, draw(seed)), count);
  };
  expect_kept(
      kSeeds, run,
      UnmetList{nothing_is_revoked(),
                writes_complete_early(),
                {"wait", {Fault::target_died}, "it waits for any rank, and names none"},
                {"WRITE", {Fault::poster_died, Fault::landed_orphaned}, "one rank dies, in few seeds", kRare},
                {"READ memory", every_fault(), "only what comes in pieces is READ", kRare},
                {"READ spread", every_fault(), "a parent asks only after a failure", kRare},
                {"READ spread",
                 {Fault::poster_died, Fault::landed_orphaned, Fault::answer_lost},
                 "a parent has a failure, asks, and one of the two dies just then",
                 kMayBeZero},
                {"WRITE memory", {Fault::landed_given_up, Fault::link_replaced}, "few links break then", kRare}});
}

bool caught(const comm::SpreadRules& rules) {
  const auto run = [&](std::uint64_t seed) {
    SpreadScenario scenario = draw(seed);
    scenario.rules = rules;
    return SpreadRun(seed, scenario).run();
  };
  return first_violation(kSeeds, run).has_value();
}

TEST(SpreadSimRules, CatchesAPieceThatIsToldOfTooEarly) { EXPECT_TRUE(caught({.pieces_before_given = false})); }
TEST(SpreadSimRules, CatchesWhoTellsItsProgramBeforePassingOn) {
  EXPECT_TRUE(caught({.passes_on_before_telling = false}));
}
TEST(SpreadSimRules, CatchesAPieceThatIsGivenAgainToAChildThatHasIt) {
  EXPECT_TRUE(caught({.settles_pieces_in_doubt = false}));
}
TEST(SpreadSimRules, CatchesASenderThatDoesNotWaitForTheLast) { EXPECT_TRUE(caught({.waits_for_the_last = false})); }

}  // namespace
}  // namespace farside::sim
