// Barriers and reductions (src/comm/protocol/meeting.h) on the harshest network there is, while members pause and die.
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "comm/protocol/meeting.h"
#include "scenario/named.h"
#include "sim/world.h"
#include "tests/sim/disturbance.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

using comm::Meeting;
using team::Rank;

using namespace std::chrono_literals;

constexpr Duration kTimeout = 5s;  // much longer than any pause of the undisturbed
constexpr Duration kLife = 1ms;    // in which faults begin
constexpr Duration kForever = 1h;

/// Everything about a run but its seed.
struct MeetingScenario {
  Rank members = 3;
  std::uint64_t meetings = 30;
  std::uint64_t most_under_way = 1;  ///< meetings that a member begins before it waits for the first of them
  bool reduces = false;
  bool writes = true;   ///< to the others; otherwise each only stores in its own memory, and arrives the sooner
  bool leaves = false;  ///< each, once its last meeting has ended
  Rank outside = 0;     ///< ranks that are no members, to which no link carries anything, and to which members write
  Disturbance disturbance;
  Network network;
  comm::MeetingRules rules;

  /// Members may give up.
  [[nodiscard]] bool may_fail() const { return network.breaks_links || !disturbance.is_none(); }
};

MeetingScenario draw(std::uint64_t seed) {
  Scheduler dice(seed * 7919);
  MeetingScenario scenario;
  scenario.members = 2 + static_cast<Rank>(dice.random() % 9);  // up to two levels of the tree
  scenario.reduces = dice.one_in(2);
  // The result of a meeting is taken before its slot is opened again; otherwise opening waits.
  scenario.most_under_way = 1 + dice.random() % (scenario.reduces ? Meeting::kInFlight : Meeting::kInFlight + 2);
  scenario.writes = dice.one_in(2);
  scenario.network.grain_bytes = scenario::draw_grain(dice);
  for (const scenario::NamedSwitch& each : scenario::named_switches()) scenario.network.*each.on = dice.one_in(2);
  scenario.leaves = dice.one_in(2);
  if (scenario.leaves) {  // often while others still wait for the last meeting
    scenario.meetings = 1 + dice.random() % 3;
    scenario.network.detection = 10us;
    scenario.network.slow_process = static_cast<std::uint32_t>(dice.random() % scenario.members);
  }
  scenario.network.breaks_links = dice.one_in(3);
  scenario.disturbance = Disturbance::draw(dice, kTimeout);
  scenario.disturbance.deaths = dice.one_in(3) ? 1 : 0;
  scenario.outside = dice.one_in(3) ? 1 : 0;
  return scenario;
}

/// What `member` brings to meeting `number`.
std::uint64_t brought_by(Rank member, std::uint64_t number) { return number * 1000 + member; }

void add(std::span<std::byte> into, std::span<const std::byte> from) {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::memcpy(&a, into.data(), 8);
  std::memcpy(&b, from.data(), 8);
  a += b;
  std::memcpy(into.data(), &a, 8);
}

/// Before each meeting a member stores its number in a word of its own and may WRITE it to one at every other one;
/// after it, it looks for what the others wrote here, and READs what they stored there.
class MeetingRun {
 public:
  MeetingRun(std::uint64_t seed, const MeetingScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario.members + scenario.outside, scenario.network),
        words_(world_.size()),
        meetings_(world_.size()),
        arrived_(scenario.members, 0),
        finished_(scenario.members, false) {}

  [[nodiscard]] World& world() { return world_; }

  std::optional<std::string> run() {
    for (Rank rank = 0; rank < scenario_.members; ++rank) world_.on(rank, [this, rank] { live(rank); });
    for (Rank rank = scenario_.members; rank < world_.size(); ++rank)
      world_.on(rank, [this, rank] { join(rank, {rank}); });
    if (!world_.run(10min)) fail("a member was still waiting when the time was over");
    for (Rank rank = 0; rank < scenario_.members; ++rank) {
      if (!scenario_.may_fail() && !finished_[rank]) fail("rank " + std::to_string(rank) + " gave up");
    }
    return violation_;
  }

 private:
  void schedule_faults() {
    Scheduler& scheduler = world_.scheduler();
    for (int pause = 0; pause < 2; ++pause) {
      const auto paused = static_cast<Rank>(scheduler.random() % scenario_.members);
      scheduler.after(scheduler.up_to(kLife), [this, paused] { world_.pause(paused, kLife); });
    }
    disturb(world_, scenario_.disturbance, kLife);
  }

  void cut_off_the_outside() {
    for (Rank outside = scenario_.members; outside < world_.size(); ++outside) {
      for (Rank member = 0; member < scenario_.members; ++member) {
        world_.wires().stall(world_.fabric(member).process(), world_.fabric(outside).process(), kForever);
      }
    }
  }

  void join(Rank rank, const std::vector<Rank>& group) {
    SimTeam& team = world_.team(rank);
    words_[rank] = team.allocate("words", 8 * std::uint64_t{team.size()});
    meetings_[rank] = std::make_unique<Meeting>(team, group, "meeting", scenario_.reduces ? 8 : 0, scenario_.rules);
  }

  void live(Rank rank) {
    SimTeam& team = world_.team(rank);
    std::vector<Rank> members(scenario_.members);
    std::iota(members.begin(), members.end(), 0);
    join(rank, members);
    Meeting& meeting = *meetings_[rank];
    const auto channel = team.fabric().open_channel();
    if (rank == 0) {
      schedule_faults();
      cut_off_the_outside();
    }
    std::uint64_t ended = 0;
    for (std::uint64_t number = 1; number <= scenario_.meetings; ++number) {
      if (!begin(team, *words_[rank], meeting, *channel)) return;
      if (number - ended < scenario_.most_under_way && number < scenario_.meetings) continue;
      while (ended < number) {
        if (!end(team, *words_[rank], meeting, *channel, ++ended)) return;
      }
    }
    finished_[rank] = true;
    if (scenario_.leaves) world_.kill(rank);
  }

  // False when the member gives up.
  bool begin(SimTeam& team, const team::SymmetricRegion& words, Meeting& meeting, Channel& channel) {
    const Deadline deadline = team.fabric().in(scenario_.disturbance.timeout);
    const Result<std::uint64_t> opened = meeting.open(channel, deadline);
    if (!opened.done()) return false;
    const std::uint64_t number = opened.value;
    words.local().word<ControlWord>(8 * team.rank()).store(number);
    for (Rank other = scenario_.members; other < team.size(); ++other) {
      (void)channel.store(words.of(other).word<ControlWord>(8 * team.rank()), number, team.fabric().in(20us));
    }
    for (Rank other = 0; other < scenario_.members; ++other) {
      if (other == team.rank() || !scenario_.writes) continue;
      (void)channel.store(words.of(other).word<ControlWord>(8 * team.rank()), number, deadline);
    }
    arrived_[team.rank()] = number;
    std::uint64_t value = brought_by(team.rank(), number);
    auto payload = std::as_writable_bytes(std::span(&value, scenario_.reduces ? 1 : 0));
    return meeting.arrive(channel, number, payload, add, deadline) == Outcome::done;
  }

  bool end(SimTeam& team, const team::SymmetricRegion& words, Meeting& meeting, Channel& channel,
           std::uint64_t number) {
    const Deadline deadline = team.fabric().in(scenario_.disturbance.timeout);
    if (meeting.wait(channel, number, deadline) != Outcome::done) return false;
    if (!meeting.ended(number)) fail("a meeting that was waited for has not ended");
    for (Rank other = 0; other < scenario_.members; ++other) {
      const std::string whose = " of rank " + std::to_string(other) + " after meeting " + std::to_string(number);
      if (arrived_[other] < number) fail("it ended before the arrival" + whose);
      if (other == team.rank()) continue;
      const std::uint64_t written = words.local().word<ControlWord>(8 * other).load();
      if (scenario_.writes && written < number) fail("an old word" + whose);
      const Result<std::uint64_t> stored = channel.load(words.of(other).word<ControlWord>(8 * other), deadline);
      if (stored.done() && stored.value < number) fail("an old stored word" + whose);
    }
    if (scenario_.reduces) look_at_result(meeting, number);
    return true;
  }

  void look_at_result(const Meeting& meeting, std::uint64_t number) {
    std::uint64_t expected = 0;
    for (Rank rank = 0; rank < scenario_.members; ++rank) expected += brought_by(rank, number);
    std::uint64_t result = 0;
    meeting.take_result(number, std::as_writable_bytes(std::span(&result, 1)));
    if (result != expected) fail("meeting " + std::to_string(number) + " came to " + std::to_string(result));
  }

  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const MeetingScenario scenario_;
  World world_;
  // By rank. They stay until all have finished, since the others still read there.
  std::vector<std::unique_ptr<team::SymmetricRegion>> words_;
  std::vector<std::unique_ptr<Meeting>> meetings_;
  std::vector<std::uint64_t> arrived_;  ///< by rank: the last meeting it was about to arrive at
  std::vector<bool> finished_;
  std::optional<std::string> violation_;
};

TEST(MeetingSim, KeepsItsPromisesUnderEverySeed) {
  const auto run = [](std::uint64_t seed, FaultCount& count) {
    return run_counted(MeetingRun(seed, draw(seed)), count);
  };
  expect_kept(
      500, run,
      UnmetList{nothing_is_revoked(),
                writes_complete_early(),
                {"READ meeting", {Fault::answer_lost}, "it is asked only after a loss", kRare},
                {"atomic meeting", {Fault::answer_lost}, "a meeting has few arrivals", kRare},
                {"READ meeting", {Fault::target_died, Fault::link_cut}, "it is asked only after a loss", kRare}});
}

// A member whose connection to another one broke does not arrive, since its writes may be lost. No later meeting ends
// but by its deadline, although all members come to it and nothing else goes wrong.
TEST(MeetingSim, EndsByItsDeadlineAfterOneToWhichAMemberDidNotCome) {
  constexpr Rank kMembers = 3;
  Network network;
  network.breaks_links = true;
  World world(1, kMembers, network);
  std::vector<std::unique_ptr<team::SymmetricRegion>> words(kMembers);
  std::vector<std::unique_ptr<Meeting>> meetings(kMembers);
  std::vector<std::vector<Outcome>> passed(kMembers);
  bool has_broken = false;
  const auto write_until_the_connection_breaks = [&](Channel& channel) {
    const auto word = words[0]->of(1).word<ControlWord>(0);
    while (!has_broken) {
      has_broken = channel.store(word, 1, world.fabric(0).in(kTimeout)) == Outcome::link_lost ||
                   channel.load(word, world.fabric(0).in(kTimeout)).status == Outcome::link_lost;
    }
    world.heal();
  };
  const auto pass = [&](Rank rank, Channel& channel) {
    const Deadline deadline = world.fabric(rank).in(kTimeout);
    const Result<std::uint64_t> opened = meetings[rank]->open(channel, deadline);
    if (!opened.done()) return opened.status;
    const Outcome arrived = meetings[rank]->arrive(channel, opened.value, deadline);
    return arrived == Outcome::done ? meetings[rank]->wait(channel, opened.value, deadline) : arrived;
  };
  for (Rank rank = 0; rank < kMembers; ++rank) {
    world.on(rank, [&, rank] {
      SimTeam& team = world.team(rank);
      words[rank] = team.allocate("words", 8);
      meetings[rank] = std::make_unique<Meeting>(team, std::vector<Rank>{0, 1, 2}, "meeting");
      const auto channel = team.fabric().open_channel();
      if (rank == 0) write_until_the_connection_breaks(*channel);
      while (!has_broken) world.fabric(rank).sleep(kLife);
      for (std::uint64_t i = 0; i < 2 + Meeting::kInFlight; ++i) passed[rank].push_back(pass(rank, *channel));
    });
  }
  EXPECT_TRUE(world.run(10min));
  std::vector<Outcome> expected(2 + Meeting::kInFlight, Outcome::timed_out);
  EXPECT_EQ(passed[1], expected);
  EXPECT_EQ(passed[2], expected);
  expected.front() = Outcome::link_lost;
  EXPECT_EQ(passed[0], expected);
}

/// Members leave, some while others wait, and nothing else goes wrong: none may give up.
MeetingScenario draw_leaving(std::uint64_t seed) {
  MeetingScenario scenario = draw(seed);
  scenario.leaves = true;
  scenario.meetings = 1 + seed % 3;
  scenario.network.detection = 10us;
  scenario.network.slow_process = static_cast<std::uint32_t>(seed % scenario.members);
  scenario.network.breaks_links = false;
  scenario.disturbance = {.timeout = kTimeout};
  return scenario;
}

/// The seed on which a broken rule is noticed, of the first five hundred; 0 when it is not.
std::uint64_t caught(const comm::MeetingRules& rules, MeetingScenario (*drawn)(std::uint64_t) = draw) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    MeetingScenario scenario = drawn(seed);
    scenario.rules = rules;
    if (MeetingRun(seed, scenario).run()) return seed;
  }
  return 0;
}

TEST(MeetingSim, NoMemberGivesUpBecauseOthersLeave) { EXPECT_EQ(caught({}, draw_leaving), 0u); }

TEST(MeetingSimRules, CatchesAnArrivalAheadOfWhatWasWritten) {
  EXPECT_NE(caught({.flushes_before_arriving = false}), 0u);
}

TEST(MeetingSimRules, CatchesAnArrivalAheadOfWhatWasStored) {
  EXPECT_NE(caught({.stores_before_arriving = false}), 0u);
}

TEST(MeetingSimRules, CatchesACounterForSeveralMeetings) { EXPECT_NE(caught({.counts_instances_apart = false}), 0u); }

TEST(MeetingSimRules, CatchesWhoDoesNotWaitForTheSlot) { EXPECT_NE(caught({.waits_for_the_slot = false}), 0u); }

TEST(MeetingSimRules, CatchesAReleaseThatNamesNoMeeting) { EXPECT_NE(caught({.flags_name_instances = false}), 0u); }

TEST(MeetingSimRules, CatchesAnArrivalAheadOfTheContribution) {
  EXPECT_NE(caught({.contribution_before_arrival = false}), 0u);
}

TEST(MeetingSimRules, CatchesAReleaseAheadOfTheResult) { EXPECT_NE(caught({.result_before_release = false}), 0u); }

TEST(MeetingSimRules, CatchesAReleaseOfOthersAheadOfTheOwn) {
  EXPECT_NE(caught({.releases_itself_first = false}, draw_leaving), 0u);
}

TEST(MeetingSimRules, CatchesAMemberThatLeftTakenForALoss) { EXPECT_NE(caught({.asks_after_a_loss = false}), 0u); }

}  // namespace
}  // namespace farside::sim
