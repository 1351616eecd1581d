// Exchanges (src/comm/protocol/exchange.h) on the harshest network there is, several under way: each member finds what
// all wrote for it, however late it looks, while fast ones come to the same slots again.
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/protocol/exchange.h"
#include "sim/world.h"
#include "tests/sim/disturbance.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

using team::Rank;

constexpr std::uint64_t kMeetings = 24;
constexpr std::uint64_t kMaxWords = 3;                     // of a piece
constexpr Duration kSlow = std::chrono::microseconds(20);  // after which what came is taken, at most
constexpr Duration kLife = std::chrono::milliseconds(1);   // in which faults begin
constexpr Duration kTimeout = std::chrono::seconds(5);
constexpr Duration kLimit = std::chrono::minutes(10);

struct ExchangeScenario {
  Rank members = 3;
  std::uint64_t most_under_way = 1;
  Disturbance disturbance;
  Network network;
  comm::MeetingRules meeting_rules{};
  comm::ExchangeRules rules{};

  /// Members may give up.
  [[nodiscard]] bool may_fail() const { return network.breaks_links || !disturbance.is_none(); }
};

ExchangeScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 7919);
  ExchangeScenario scenario;
  scenario.members = 2 + static_cast<Rank>(dice.random() % 4);
  scenario.most_under_way = 1 + dice.random() % comm::Exchange::kUnderWay;
  scenario.network = harshest(seed);
  scenario.disturbance = Disturbance::draw(dice, kTimeout);
  scenario.disturbance.deaths = dice.one_in(2) ? 1 : 0;
  if (dice.one_in(2)) scenario.network.detection = std::chrono::microseconds(50);  // of a death, before a timeout
  return scenario;
}

/// Pieces differ in length.
std::uint64_t words_of(Rank from, Rank to, std::uint64_t number) { return (from + 2 * to + number) % (kMaxWords + 1); }
std::uint64_t value_of(Rank from, Rank to, std::uint64_t number) { return number * 100 + from * 10 + to; }

class ExchangeRun {
 public:
  ExchangeRun(std::uint64_t seed, const ExchangeScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario.members, scenario.network),
        meetings_(scenario.members),
        exchanges_(scenario.members),
        finished_(scenario.members, false) {}

  [[nodiscard]] World& world() { return world_; }

  // What went wrong.
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < scenario_.members; ++rank) world_.on(rank, [this, rank] { live(rank); });
    if (!world_.run(kLimit)) fail("a rank was still waiting when the time was over");
    for (Rank rank = 0; rank < scenario_.members; ++rank) {
      if (!scenario_.may_fail() && !finished_[rank]) fail("rank " + std::to_string(rank) + " gave up");
    }
    return violation_;
  }

 private:
  void schedule_faults() {
    Scheduler& scheduler = world_.scheduler();
    const auto paused = static_cast<Rank>(scheduler.random() % scenario_.members);
    scheduler.after(scheduler.up_to(kLife), [this, paused] { world_.pause(paused, kLife); });
    disturb(world_, scenario_.disturbance, kLife);
  }

  void live(Rank rank) {
    SimTeam& team = world_.team(rank);
    std::vector<Rank> all(team.size());
    std::iota(all.begin(), all.end(), 0);
    meetings_[rank] = std::make_unique<comm::Meeting>(team, all, "meeting", 0, scenario_.meeting_rules);
    exchanges_[rank] = std::make_unique<comm::Exchange>(team, *meetings_[rank], "pieces", scenario_.rules);
    comm::Meeting& meeting = *meetings_[rank];
    comm::Exchange& exchange = *exchanges_[rank];
    const auto channel = team.fabric().open_channel();
    if (rank == 0) schedule_faults();
    std::uint64_t ended = 0;
    for (std::uint64_t number = 1; number <= kMeetings; ++number) {
      if (!begin(team, meeting, exchange, *channel)) return;
      if (number - ended < scenario_.most_under_way && number < kMeetings) continue;
      // All of them, or only as many as must be.
      const std::uint64_t until = world_.scheduler().one_in(2) ? number : number + 1 - scenario_.most_under_way;
      while (ended < until || (number == kMeetings && ended < number)) {
        if (!end(team, meeting, exchange, *channel, ++ended)) return;
      }
    }
    finished_[rank] = true;
  }

  // False when the member gives up.
  bool begin(SimTeam& team, comm::Meeting& meeting, comm::Exchange& exchange, Channel& channel) {
    const Deadline deadline = team.fabric().in(scenario_.disturbance.timeout);
    const Result<std::uint64_t> opened = meeting.open(channel, deadline);
    if (!opened.done()) return false;
    std::vector<std::vector<std::uint64_t>> pieces;
    for (Rank to = 0; to < team.size(); ++to) {
      pieces.emplace_back(words_of(team.rank(), to, opened.value), value_of(team.rank(), to, opened.value));
    }
    const auto outgoing = [&](std::size_t to) { return std::as_writable_bytes(std::span(pieces[to])); };
    return exchange.arrive(channel, opened.value, outgoing, deadline) == Outcome::done;
  }

  bool end(SimTeam& team, comm::Meeting& meeting, comm::Exchange& exchange, Channel& channel, std::uint64_t number) {
    if (meeting.wait(channel, number, team.fabric().in(scenario_.disturbance.timeout)) != Outcome::done) return false;
    for (Rank from = 0; from < team.size(); ++from) {
      team.fabric().sleep(world_.scheduler().up_to(kSlow));
      std::vector<std::uint64_t> found(words_of(from, team.rank(), number));
      exchange.take(number, from, std::as_writable_bytes(std::span(found)));
      for (const std::uint64_t word : found) {
        if (word == value_of(from, team.rank(), number)) continue;
        fail("in meeting " + std::to_string(number) + " rank " + std::to_string(from) + " sent " +
             std::to_string(word) + " to rank " + std::to_string(team.rank()));
      }
    }
    return true;
  }

  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const ExchangeScenario scenario_;
  World world_;
  // By rank. They stay until all have finished, since the others still write there.
  std::vector<std::unique_ptr<comm::Meeting>> meetings_;
  std::vector<std::unique_ptr<comm::Exchange>> exchanges_;
  std::vector<bool> finished_;
  std::optional<std::string> violation_;
};

constexpr std::uint64_t kSeeds = 300;

TEST(ExchangeSim, BringsWhatWasWrittenUnderEverySeed) {
  const auto run = [](std::uint64_t seed, FaultCount& count) {
    return run_counted(ExchangeRun(seed, draw(seed)), count);
  };
  expect_kept(kSeeds, run,
              UnmetList{nothing_is_revoked(),
                        writes_complete_early(),
                        {"signal", {Fault::target_died}, "a signal follows a flush, which reports that first", kRare},
                        {"READ meeting", every_fault(), "a member asks another one only after a loss", kRare},
                        {"READ meeting",
                         {Fault::timed_out, Fault::poster_died, Fault::landed_orphaned, Fault::landed_given_up,
                          Fault::link_replaced, Fault::answer_lost},
                         "it takes two faults that meet: a loss, and this one while the member asks",
                         kMayBeZero}});
}

/// Whether what `breaks` breaks is noticed.
template <class Breaks>
bool caught(Breaks breaks) {
  const auto run = [&](std::uint64_t seed) {
    ExchangeScenario scenario = draw(seed);
    breaks(scenario);
    return ExchangeRun(seed, scenario).run();
  };
  return first_violation(kSeeds, run).has_value();
}

TEST(ExchangeSimRules, CatchesAnArrivalAheadOfItsPieces) {
  EXPECT_TRUE(caught([](ExchangeScenario& scenario) { scenario.meeting_rules.flushes_before_arriving = false; }));
}

TEST(ExchangeSimRules, CatchesAPlaceForSeveralMeetings) {
  EXPECT_TRUE(caught([](ExchangeScenario& scenario) { scenario.rules.keeps_slots_apart = false; }));
}

// Who has begun as many as a meeting allows comes to slots whose pieces others have not taken yet.
TEST(ExchangeSim, CatchesWhoHasTooManyUnderWay) {
  EXPECT_TRUE(caught([](ExchangeScenario& scenario) { scenario.most_under_way = comm::Meeting::kInFlight; }));
}

}  // namespace
}  // namespace farside::sim
