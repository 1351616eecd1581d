// Offers and claims on the harshest network there is: two ranks, each of which offers to the other and claims from it
// under several keys at once, again and again, with sizes that differ now and then and offers that are withdrawn.
#include <array>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "comm/protocol/match_table.h"
#include "sim/world.h"
#include "tests/sim/seeds.h"

namespace farside::sim {
namespace {

constexpr Rank kRanks = 2;
constexpr std::uint64_t kKeys = 2;
constexpr std::uint64_t kRounds = 6;
constexpr std::uint64_t kWords = 4;  // of a place
constexpr std::uint64_t kPlaceBytes = 8 * kWords;
constexpr Duration kSoon = std::chrono::microseconds(5);  // after which an offer is withdrawn, at most
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr Duration kLimit = std::chrono::seconds(20);

using End = MatchTable::End;

class Run {
 public:
  Run(std::uint64_t seed, const MatchRules& rules) : rules_(rules), world_(seed, kRanks, harshest(seed)) {}

  // What went wrong.
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) fail("somebody was still waiting when the time was over");
    return violation_;
  }

 private:
  struct Side {
    std::unique_ptr<SymmetricRegion> memory;  // places that are offered, then those that are claimed, by key
    std::unique_ptr<MatchTable> table;
  };

  void live(Rank rank) {
    Team& team = world_.team(rank);
    Side& side = sides_[rank];
    side.memory = team.allocate("places", 2 * kKeys * kPlaceBytes);
    side.table = std::make_unique<MatchTable>(team, "matches", std::vector<const SymmetricRegion*>{side.memory.get()},
                                              kKeys, rules_);
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      for (const End end : {End::source, End::destination}) {
        world_.on(rank, [this, rank, end, key] { meet_many_times(rank, end, key); });
      }
    }
  }

  void meet_many_times(Rank rank, End end, std::uint64_t key) {
    Fabric& fabric = world_.fabric(rank);
    const auto channel = fabric.open_channel();
    const bool offers = end == End::source;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      const bool fits = (round + key) % 3 != 0;
      const MatchPlace place{0, place_offset(end, key), fits || offers ? kPlaceBytes : kPlaceBytes - 8};
      if (offers) fill(rank, place, round);
      const std::string name = (offers ? "offer " : "claim ") + std::to_string(round) + " of key " +
                               std::to_string(key) + " by rank " + std::to_string(rank);
      const auto ticket = begin(*channel, rank, end, key, place);
      if (!ticket) return fail(name + " did not begin");
      if (sides_[rank].table->wait(*channel, *ticket, fabric.in(kPatience)) != Outcome::done) {
        return fail(name + " did not end");
      }
      const bool fitted = sides_[rank].table->state(*ticket) == MatchTable::State::transferred;
      if (fitted != fits) fail(name + (fitted ? " fitted" : " did not fit"));
      if (fits && !offers) check(rank, place, round, name);
    }
  }

  // Sometimes withdrawn before it begins for good.
  std::optional<MatchTable::Ticket> begin(Channel& channel, Rank rank, End end, std::uint64_t key,
                                          const MatchPlace& place) {
    Fabric& fabric = world_.fabric(rank);
    MatchTable& table = *sides_[rank].table;
    for (bool for_good = world_.scheduler().one_in(2);; for_good = true) {
      const auto ticket = table.open(end, 1 - rank, key);
      if (!ticket || table.open(end, 1 - rank, key)) return std::nullopt;
      if (table.meet(channel, *ticket, place, fabric.in(kPatience)) != Outcome::done) return std::nullopt;
      if (for_good) return ticket;
      fabric.sleep(world_.scheduler().up_to(kSoon));
      if (!table.withdraw(channel, *ticket, fabric.in(kPatience))) return ticket;  // it has met
    }
  }

  [[nodiscard]] static std::uint64_t place_offset(End end, std::uint64_t key) {
    return (end == End::source ? key : kKeys + key) * kPlaceBytes;
  }
  [[nodiscard]] LocalWord<ControlWord> word(Rank rank, const MatchPlace& place, std::uint64_t at) {
    return sides_[rank].memory->local().word<ControlWord>(place.offset + 8 * at);
  }
  void fill(Rank rank, const MatchPlace& place, std::uint64_t round) {
    for (std::uint64_t at = 0; at < kWords; ++at) word(rank, place, at).store(round);
  }
  void check(Rank rank, const MatchPlace& place, std::uint64_t round, const std::string& name) {
    for (std::uint64_t at = 0; at < kWords; ++at) {
      const std::uint64_t found = word(rank, place, at).load();
      if (found != round) fail(name + " brought what was offered in round " + std::to_string(found));
    }
  }

  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const MatchRules rules_;
  World world_;
  std::array<Side, kRanks> sides_;
  std::optional<std::string> violation_;
};

constexpr std::uint64_t kSeeds = 300;

std::optional<std::string> violation(const MatchRules& rules) {
  return first_violation(kSeeds, [&](std::uint64_t seed) { return Run(seed, rules).run(); });
}

bool caught(const MatchRules& rules) { return violation(rules).has_value(); }

TEST(MatchSim, MeetsInPairsUnderEverySeed) { EXPECT_EQ(violation({}), std::nullopt); }

TEST(MatchSim, CatchesAMatchAheadOfItsPlace) { EXPECT_TRUE(caught({.place_before_match = false})); }
TEST(MatchSim, CatchesAnEndAheadOfItsBytes) { EXPECT_TRUE(caught({.bytes_before_end = false})); }
TEST(MatchSim, CatchesAnEndAheadOfTheFreeEntry) { EXPECT_TRUE(caught({.free_before_end = false})); }

}  // namespace
}  // namespace farside::sim
