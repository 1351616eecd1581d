// Active messages on the harshest network there is: all ranks send to all ranks from two threads through rings of two
// places, and a rank that is asked answers and passes on.
#include <array>
#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "comm/protocol/message_rings.h"
#include "sim/world.h"
#include "tests/sim/disturbance.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

using team::Rank;

constexpr Rank kRanks = 3;
constexpr std::uint64_t kThreads = 2;
constexpr std::uint64_t kAsks = 5;  // of each thread to each rank
constexpr std::uint32_t kAsk = 0;
constexpr std::uint32_t kAnswer = 1;
constexpr std::uint32_t kPassedOn = 2;
constexpr std::uint64_t kPayloadWords = 3;
constexpr Duration kNap = std::chrono::seconds(1);        // at most, of a service thread
constexpr Duration kLook = std::chrono::milliseconds(2);  // whether all is over
constexpr Duration kSendTimeout = std::chrono::seconds(20);
constexpr Duration kHaste = std::chrono::microseconds(100);  // of a sender that does not wait long for room
constexpr Duration kBound = std::chrono::seconds(10);  // by when all has come: naps, stops, and steps towards the dead
constexpr Duration kLimit = std::chrono::seconds(60);

struct MessagesScenario {
  bool dies = false;        ///< the last rank, at some time
  bool by_service = false;  ///< the service thread alone carries, as it does where peers are not reached by memory
  bool splits_words = true;
  comm::MessageRules rules{};
};

constexpr Duration kLife = std::chrono::milliseconds(1);  // in which faults begin
// Some last longer than a transfer may take.
constexpr Duration kMaxStop = std::chrono::milliseconds(1500);

// What a caller carries itself are memory accesses: they are over when they return, and no link of theirs breaks.
Network network(std::uint64_t seed, const MessagesScenario& scenario) {
  Network network = harshest(seed);
  network.breaks_links = network.breaks_links && scenario.by_service;
  if (!scenario.splits_words) network.grain_bytes = 8;
  return network;
}

class Run {
 public:
  Run(std::uint64_t seed, const MessagesScenario& scenario)
      : scenario_(scenario),
        disturbed_(scenario.by_service && seed % 4 == 1),
        world_(seed, kRanks, network(seed, scenario)) {}

  [[nodiscard]] World& world() { return world_; }

  // What went wrong.
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) fail("a rank was still waiting when the time was over");
    if (const auto missing = first_missing()) fail(*missing);
    return violation_;
  }

 private:
  struct Place {
    std::unique_ptr<team::SymmetricRegion> bells;
    std::unique_ptr<comm::MessageRings> rings;
    std::uint64_t rung = 0;
    std::map<std::array<std::uint64_t, 3>, std::uint64_t> came;  // the last, by sender, handler and the sender's thread
    std::map<std::array<std::uint64_t, 2>, std::uint64_t> sent;  // by handlers: by receiver and handler
  };

  void live(Rank rank) {
    team::Team& team = world_.team(rank);
    Place& place = places_[rank];
    place.bells = team.allocate("bells", 8);
    // As the service of comm rings. Its bell may miss one, since a WRITE may be stored twice.
    const auto ring = [&place, rank](Channel& channel, Rank to, Deadline deadline) {
      const std::uint64_t number = std::uint64_t{rank} << 48U | ++place.rung;
      return channel.write_signal(place.bells->of(to).word<ControlWord>(0), number, deadline);
    };
    const comm::MessageRings::Shape shape{
        .handlers = 3, .places = 2, .payload_bytes = 8 * kPayloadWords, .outbox = 200};
    place.rings = std::make_unique<comm::MessageRings>(team, "messages", shape, ring, scenario_.rules);
    if (team.barrier(team.fabric().in(kSendTimeout)) != Outcome::done) return;
    if (rank == 0 && scenario_.dies) {
      Scheduler& scheduler = world_.scheduler();
      scheduler.after(scheduler.up_to(kLife), [this] { world_.kill(kRanks - 1); });
    }
    if (rank == 0 && disturbed_) {
      disturb(world_, {.stops = 2, .cuts = 4, .longest = kMaxStop, .timeout = kSendTimeout}, kLife);
    }
    world_.on(rank, [this, rank] { serve(rank); });
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
      world_.on(rank, [this, rank, thread, ring] { ask(rank, thread, ring); });
    }
  }

  void serve(Rank rank) {
    Place& place = places_[rank];
    Fabric& fabric = world_.fabric(rank);
    const auto channel = fabric.open_channel();
    const auto bell = place.bells->local().word<ControlWord>(0);
    const Time end = fabric.now() + kBound;
    while (fabric.now() < end && first_missing()) {
      const std::uint64_t heard = bell.load();
      place.rings->receive(*channel, [&](const comm::MessageRings::Arrived& arrived) { take(rank, arrived); });
      place.rings->carry_all(*channel);
      const Time awake = fabric.now() + kNap;
      while (bell.load() == heard && fabric.now() < awake && first_missing()) {
        (void)channel->wait_until(
            place.bells->local(), bell, [heard](std::uint64_t now) { return now != heard; }, fabric.in(kLook));
      }
    }
    if (place.rings->refused() != 0) fail("rank " + std::to_string(rank) + " took something for no message");
  }

  void ask(Rank rank, std::uint64_t thread, const comm::MessageRings::Ring& ring) {
    Place& place = places_[rank];
    const auto channel = world_.fabric(rank).open_channel();
    const auto timeout = [&] { return world_.fabric(rank).in(kSendTimeout); };
    Scheduler& dice = world_.scheduler();
    for (std::uint64_t number = 1; number <= kAsks; ++number) {
      for (Rank to = 0; to < kRanks; ++to) {
        // What timed out was not sent.
        Outcome sent = Outcome::timed_out;
        if (dice.one_in(4)) {
          const Duration haste = dice.up_to(kHaste);
          sent = place.rings->send(*channel, to, record(kAsk, thread, number), world_.fabric(rank).in(haste));
        }
        if (sent == Outcome::timed_out) {
          sent = place.rings->send(*channel, to, record(kAsk, thread, number), timeout());
        }
        if (sent != Outcome::done && to < living())
          fail("a message to rank " + std::to_string(to) + " was not sent: " + std::string(to_string(sent)) + " from " +
               std::to_string(rank));
        if (!scenario_.by_service) (void)place.rings->carry(*channel, to);
        if (scenario_.by_service) (void)ring(*channel, rank, timeout());
      }
    }
  }

  void take(Rank rank, const comm::MessageRings::Arrived& arrived) {
    const auto [thread, number, mark, unused, last] = arrived.words;
    std::uint64_t& came = places_[rank].came[{arrived.source, arrived.handler, thread}];
    const std::string name = "message " + std::to_string(number) + " for handler " + std::to_string(arrived.handler) +
                             " from rank " + std::to_string(arrived.source) + " to " + std::to_string(rank);
    if (number != ++came) fail(name + " is not the next one");
    for (const std::byte each : arrived.payload) {
      if (each != static_cast<std::byte>(number)) fail(name + " is not whole");
    }
    if (arrived.handler != kAsk) return;
    leave(rank, arrived.source, kAnswer);
    leave(rank, (arrived.source + 1) % kRanks, kPassedOn);
  }

  void leave(Rank rank, Rank to, std::uint32_t handler) {
    Place& place = places_[rank];
    const Outcome left = place.rings->leave(to, record(handler, 0, ++place.sent[{to, handler}]));
    if (left != Outcome::done && to < living()) fail("the outbox took nothing more");
  }

  static comm::MessageRecord record(std::uint32_t handler, std::uint64_t thread, std::uint64_t number) {
    const std::vector<std::byte> payload(8 * (number % (kPayloadWords + 1)), static_cast<std::byte>(number));
    return comm::make_record(handler, {thread, number, 0, 0, 0}, payload);
  }

  // Of what the living send to the living because of the living.
  [[nodiscard]] std::optional<std::string> first_missing() {
    for (Rank to = 0; to < living(); ++to) {
      for (Rank from = 0; from < living(); ++from) {
        auto& came = places_[to].came;
        const Rank asker = (to + kRanks - 1) % kRanks;  // what it asks is passed on to here
        std::uint64_t missing = kThreads * kAsks - came[{from, kAnswer, 0}];
        if (asker < living()) missing += kThreads * kAsks - came[{from, kPassedOn, 0}];
        for (std::uint64_t thread = 0; thread < kThreads; ++thread) missing += kAsks - came[{from, kAsk, thread}];
        if (missing == 0) continue;
        return std::to_string(missing) + " messages from rank " + std::to_string(from) + " to " + std::to_string(to) +
               " are missing";
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] Rank living() const { return scenario_.dies ? kRanks - 1 : kRanks; }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const MessagesScenario scenario_;
  const bool disturbed_;
  World world_;
  std::array<Place, kRanks> places_;
  std::optional<std::string> violation_;
};

constexpr std::uint64_t kSeeds = 100;

std::optional<std::string> violation(const MessagesScenario& scenario, std::uint64_t seeds = kSeeds) {
  return first_violation(seeds, [&](std::uint64_t seed) { return Run(seed, scenario).run(); });
}

void expect_no_violation(const MessagesScenario& scenario, const std::optional<UnmetList>& unmet = {}) {
  const auto run = [&](std::uint64_t seed, FaultCount& count) { return run_counted(Run(seed, scenario), count); };
  expect_kept(kSeeds, run, unmet);
}

Unmet names_no_rank() { return {"wait bells", {Fault::target_died}, "it waits for any rank, and names none"}; }

bool caught(const comm::MessageRules& rules) { return violation({.rules = rules}).has_value(); }
// The fewer pieces a WRITE has the more often one is lost with its link.
bool caught_by_service(const comm::MessageRules& rules) {
  return violation({.dies = true, .by_service = true, .splits_words = false, .rules = rules}, 10 * kSeeds).has_value();
}

TEST(MessagesSim, ArriveOnceAndInOrderUnderEverySeed) { expect_no_violation({}); }
TEST(MessagesSim, DoSoWhenTheServiceThreadCarriesThem) { expect_no_violation({.by_service = true}); }
TEST(MessagesSim, GoOnAmongTheLivingWhenOneDies) {
  expect_no_violation({.dies = true},
                      UnmetList{nothing_is_revoked(),
                                writes_complete_early(),
                                names_no_rank(),
                                {"WRITE",
                                 {Fault::poster_stopped, Fault::timed_out, Fault::landed_given_up,
                                  Fault::target_stopped, Fault::link_cut, Fault::link_replaced, Fault::link_broke},
                                 "memory accesses, which are what a caller carries, are over when they return"},
                                {"flush", {Fault::timed_out, Fault::link_replaced}, "memory has no links"},
                                {"signal", {Fault::link_replaced}, "memory has no links"}});
}
TEST(MessagesSim, GoOnWhenOneDiesAndTheServiceThreadCarries) {
  expect_no_violation({.dies = true, .by_service = true},
                      UnmetList{nothing_is_revoked(),
                                writes_complete_early(),
                                names_no_rank(),
                                {"WRITE",
                                 {Fault::timed_out},
                                 "a WRITE completes before it lands; its flush times out, which replaces the link",
                                 kMayBeZero}});
}

TEST(MessagesSimRules, CatchesATailAheadOfItsRecord) { EXPECT_TRUE(caught({.record_before_tail = false})); }
TEST(MessagesSimRules, CatchesASenderThatWaitsForNoRoom) { EXPECT_TRUE(caught({.waits_for_room = false})); }
TEST(MessagesSimRules, CatchesAPlaceGivenBackBeforeItWasCopied) {
  EXPECT_TRUE(caught({.copies_before_giving_back = false}));
}
TEST(MessagesSimRules, CatchesRoomThatIsLostWithItsLink) {
  EXPECT_TRUE(caught_by_service({.flushes_what_it_tells = false}));
}
TEST(MessagesSimRules, CatchesTailsThatOvertakeEachOther) { EXPECT_TRUE(caught({.tail_before_next = false})); }

}  // namespace
}  // namespace farside::sim
