// Offers and claims on the harshest network there is: two ranks, each of which offers to the other and claims from it
// under several keys at once, again and again, with sizes that differ now and then and offers that are withdrawn.
#include <array>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "comm/protocol/match_table.h"
#include "sim/world.h"
#include "tests/sim/disturbance.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

using comm::MatchTable;
using team::Rank;

constexpr Rank kRanks = 2;
constexpr std::uint64_t kKeys = 2;
constexpr std::uint64_t kRounds = 6;
constexpr std::uint64_t kWords = 4;  // of a place
constexpr std::uint64_t kPlaceBytes = 8 * kWords;
constexpr Duration kMaxDelay = std::chrono::microseconds(5);  // after which an offer is withdrawn
constexpr Duration kHaste = std::chrono::microseconds(5);     // in which it must be withdrawn, else it is tried again
constexpr Duration kTimeout = std::chrono::seconds(5);
constexpr Duration kLife = std::chrono::microseconds(300);  // in which faults begin
constexpr Duration kLimit = std::chrono::minutes(1);

using End = MatchTable::End;

struct MatchScenario {
  bool dies = false;  ///< the last rank
  Disturbance disturbance;
  Network network;
  comm::MatchRules rules{};

  /// Rounds may stay open.
  [[nodiscard]] bool may_fail() const { return dies || network.breaks_links || !disturbance.is_none(); }
};

MatchScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 7919);
  MatchScenario scenario;
  scenario.dies = dice.one_in(4);
  scenario.network = harshest(seed);
  scenario.disturbance = Disturbance::draw(dice, kTimeout);
  return scenario;
}

class MatchRun {
 public:
  MatchRun(std::uint64_t seed, const MatchScenario& scenario)
      : scenario_(scenario), world_(seed, kRanks, scenario.network) {}

  [[nodiscard]] World& world() { return world_; }

  // What went wrong.
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) fail("a rank was still waiting when the time was over");
    return violation_;
  }

 private:
  struct Side {
    std::unique_ptr<team::SymmetricRegion> memory;  // places that are offered, then those that are claimed, by key
    std::unique_ptr<MatchTable> table;
  };

  void live(Rank rank) {
    team::Team& team = world_.team(rank);
    Side& side = sides_[rank];
    side.memory = team.allocate("places", 2 * kKeys * kPlaceBytes);
    side.table = std::make_unique<MatchTable>(
        team, "matches", std::vector<const team::SymmetricRegion*>{side.memory.get()}, kKeys, scenario_.rules);
    if (rank == 0) {
      disturb(world_, scenario_.disturbance, kLife);
      const Duration death = world_.scheduler().up_to(kLife);
      if (scenario_.dies) world_.scheduler().after(death, [this] { world_.kill(kRanks - 1); });
    }
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      for (const End end : {End::source, End::destination}) {
        world_.on(rank, [this, rank, end, key] { meet_many_times(rank, end, key); });
      }
    }
  }

  void meet_many_times(Rank rank, End end, std::uint64_t key) {
    const auto channel = world_.fabric(rank).open_channel();
    const auto channel_to_withdraw = world_.fabric(rank).open_channel();  // a program's; the other one is its service's
    const bool offers = end == End::source;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      const bool fits = (round + key) % 3 != 0;
      const comm::MatchPlace place{0, place_offset(end, key), fits || offers ? kPlaceBytes : kPlaceBytes - 8};
      if (offers) fill(rank, place, round);
      const std::string name = (offers ? "offer " : "claim ") + std::to_string(round) + " of key " +
                               std::to_string(key) + " by rank " + std::to_string(rank);
      const auto ticket = begin(*channel, *channel_to_withdraw, rank, {end, key}, place);
      if (!ticket) return give_up(name + " did not begin");
      if (sides_[rank].table->wait(*channel, *ticket, timeout(rank)) != Outcome::done) {
        return give_up(name + " did not end");
      }
      const bool fitted = sides_[rank].table->state(*ticket) == MatchTable::State::transferred;
      if (fitted != fits) fail(name + (fitted ? " fitted" : " did not fit"));
      if (fits && !offers) check(rank, place, round, name);
    }
  }

  // Sometimes withdrawn before it begins for good.
  std::optional<MatchTable::Ticket> begin(Channel& channel, Channel& channel_to_withdraw, Rank rank,
                                          std::pair<End, std::uint64_t> use, const comm::MatchPlace& place) {
    const auto [end, key] = use;
    Fabric& fabric = world_.fabric(rank);
    MatchTable& table = *sides_[rank].table;
    for (bool for_good = world_.scheduler().one_in(2);; for_good = true) {
      const auto ticket = table.open(end, 1 - rank, key);
      if (!ticket || table.open(end, 1 - rank, key)) return std::nullopt;
      if (table.meet(channel, *ticket, place, timeout(rank)) != Outcome::done) return std::nullopt;
      if (for_good) return ticket;
      fabric.sleep(world_.scheduler().up_to(kMaxDelay));
      if (!withdraw(channel_to_withdraw, rank, *ticket)) return ticket;  // it has met
    }
  }

  // Again and again, until it is known to be withdrawn, or has ended.
  bool withdraw(Channel& channel, Rank rank, const MatchTable::Ticket& ticket) {
    Fabric& fabric = world_.fabric(rank);
    MatchTable& table = *sides_[rank].table;
    const Deadline end = timeout(rank);
    for (Duration haste = kHaste; fabric.now() < end.at; haste = 2 * haste) {
      if (table.withdraw(channel, ticket, fabric.in(world_.scheduler().up_to(haste)))) return true;
      if (table.wait(channel, ticket, fabric.in(haste)) != Outcome::timed_out) return false;
    }
    return false;
  }

  [[nodiscard]] static std::uint64_t place_offset(End end, std::uint64_t key) {
    return (end == End::source ? key : kKeys + key) * kPlaceBytes;
  }
  [[nodiscard]] LocalWord<ControlWord> word(Rank rank, const comm::MatchPlace& place, std::uint64_t at) {
    return sides_[rank].memory->local().word<ControlWord>(place.offset + 8 * at);
  }
  void fill(Rank rank, const comm::MatchPlace& place, std::uint64_t round) {
    for (std::uint64_t at = 0; at < kWords; ++at) word(rank, place, at).store(round);
  }
  void check(Rank rank, const comm::MatchPlace& place, std::uint64_t round, const std::string& name) {
    for (std::uint64_t at = 0; at < kWords; ++at) {
      const std::uint64_t found = word(rank, place, at).load();
      if (found != round) fail(name + " brought what was offered in round " + std::to_string(found));
    }
  }

  [[nodiscard]] Deadline timeout(Rank rank) { return world_.fabric(rank).in(scenario_.disturbance.timeout); }
  void give_up(const std::string& what) {
    if (!scenario_.may_fail()) fail(what);
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const MatchScenario scenario_;
  World world_;
  std::array<Side, kRanks> sides_;
  std::optional<std::string> violation_;
};

constexpr std::uint64_t kSeeds = 300;

bool caught(const comm::MatchRules& rules) {
  const auto run = [&rules](std::uint64_t seed) {
    MatchScenario scenario = draw(seed);
    scenario.rules = rules;
    return MatchRun(seed, scenario).run();
  };
  return noticed(first_violation(kSeeds, run));
}

TEST(MatchSim, MeetsInPairsUnderEverySeed) {
  const auto run = [](std::uint64_t seed, FaultCount& count) { return run_counted(MatchRun(seed, draw(seed)), count); };
  expect_kept(
      kSeeds, run,
      UnmetList{
          nothing_is_revoked(),
          writes_complete_early(),
          {"READ", {Fault::answer_lost}, "there are few of them", kRare},
          {"atomic", {Fault::answer_lost}, "few die then", kRare},
          {"WRITE", {Fault::answered_late, Fault::link_broke}, "most have completed before", kRare},
          {"signal", {Fault::link_replaced, Fault::target_died}, "a flush reports that first", kMayBeZero},
          {"READ", {Fault::landed_orphaned, Fault::poster_died}, "few READs are under way then", kRare},
          {"READ",
           {Fault::landed_given_up},
           "a thread that gives one up closes its channel, which ends it",
           kMayBeZero},
          {"READ matches", {Fault::target_died, Fault::link_cut, Fault::link_broke}, "there are few of them", kRare},
          {"READ places", {Fault::target_stopped}, "there are few of them", kRare},
          {"WRITE places",
           {Fault::poster_died, Fault::landed_orphaned, Fault::landed_given_up, Fault::target_stopped,
            Fault::target_died},
           "there are few of them",
           kRare}});
}

TEST(MatchSimRules, CatchesAMatchAheadOfItsPlace) { EXPECT_TRUE(caught({.place_before_match = false})); }
TEST(MatchSimRules, CatchesAnEndAheadOfItsBytes) { EXPECT_TRUE(caught({.bytes_before_end = false})); }
TEST(MatchSimRules, CatchesAWithdrawalThatLandsOnALaterOffer) { EXPECT_TRUE(caught({.counts_withdrawals = false})); }
TEST(MatchSimRules, CatchesALateWithdrawalThatIsNotKnown) { EXPECT_TRUE(caught({.knows_late_withdrawals = false})); }
TEST(MatchSimRules, CatchesAnEndAheadOfTheFreeEntry) { EXPECT_TRUE(caught({.free_before_end = false})); }

}  // namespace
}  // namespace farside::sim
