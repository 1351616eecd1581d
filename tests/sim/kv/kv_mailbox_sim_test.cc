// Mailboxes on the harshest network there is: clients ask a server through rings of two slots, in pieces, several at
// once and some of them in a hurry; the server answers what was asked, each once and in order.
#include <array>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "kv/mailbox/served_mailbox.h"
#include "sim/world.h"
#include "tests/sim/faults_met.h"

namespace farside::kv {
namespace {

using team::Rank;

using sim::Fault;
using sim::Network;
using sim::World;

constexpr Rank kServer = 0;
constexpr Rank kRanks = 3;
constexpr MailboxShape kShape{.slots = 2, .slot_bytes = 64};  // pieces of 32 bytes
constexpr std::uint64_t kRing = 64;                           // after the bell
constexpr std::uint64_t kRequests = 12;                       // of each client
constexpr Duration kHaste = std::chrono::microseconds(30);
constexpr Duration kLook = std::chrono::microseconds(20);
constexpr Duration kLife = std::chrono::microseconds(600);  // in which faults of processes begin
constexpr Duration kLimit = std::chrono::seconds(30);

struct MailboxScenario {
  Waking waking = Waking::polled;
  bool by_memory = true;
  bool impatient = false;
  Duration timeout = std::chrono::milliseconds(500);  ///< of a client that is not in a hurry
  int pauses = 0;
  std::optional<Rank> dies{};
  ReplyTimeouts replies{};
  bool gives_up = false;  ///< the server, clients that stop for longer than `replies` allow
  MailboxRules rules{};
};

/// The harshest, with the switches that matter most here in every combination. Mapped memory has no links that break,
/// and answers until a death is known.
Network network_of(std::uint64_t seed, const MailboxScenario& scenario) {
  Network network = sim::harshest(seed);
  network.fences_flush = seed % 2 == 0;
  network.prioritizes = seed / 2 % 2 == 0;
  network.grain_bytes = seed / 4 % 2 == 0 ? 4 : 8;
  if (scenario.by_memory) {
    network.fences_flush = network.replaces_links = network.flushes_replace_links = network.breaks_links = false;
    network.dead_memory_answers = seed / 8 % 2 == 0;
  }
  return network;
}

class Run {
 public:
  Run(std::uint64_t seed, const MailboxScenario& scenario)
      : scenario_(scenario), world_(seed, kRanks, network_of(seed, scenario)) {}

  [[nodiscard]] World& world() noexcept { return world_; }
  /// How many clients the server gave up; of `run`.
  [[nodiscard]] auto given_up() const { return std::ranges::count(is_given_up_, true); }
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) fail("a rank was still at work when the time was over");
    return violation_;
  }

 private:
  void live(Rank rank) {
    const std::uint64_t bytes = kRing + (kRanks - 1) * kShape.ring_bytes();
    memory_.at(rank) = world_.team(rank).allocate("rings", bytes);
    if (++ready_ == kRanks) schedule_faults();
    if (rank == kServer) return serve();
    ask(rank);
    has_ended_.at(rank) = true;
  }

  void schedule_faults() {
    auto& dice = world_.scheduler();
    for (int i = 0; i < scenario_.pauses; ++i) {
      dice.after(dice.up_to(kLife), [this, &dice] {
        world_.pause(static_cast<Rank>(dice.random() % kRanks), dice.up_to(std::chrono::milliseconds(5)));
      });
    }
    if (scenario_.dies) dice.after(dice.up_to(kLife), [this] { world_.kill(*scenario_.dies); });
  }

  [[nodiscard]] MailboxEnd end(Rank self, Rank client) {
    const Rank other = self == kServer ? client : kServer;
    const std::uint64_t offset = kRing + (client - 1) * kShape.ring_bytes();
    const RemoteRegion& region = memory_.at(self)->of(other);
    return {.own = &memory_.at(self)->local(),
            .own_offset = offset,
            .other = &region,
            .other_offset = offset,
            .by_memory = scenario_.by_memory,
            .bell = region.word<AtomicWord>(0)};
  }

  // ---- What is asked and answered tells its number, and a few sizes come again and again.

  static Message message(std::uint64_t number, Rank client, std::size_t bytes) {
    return Message(bytes, static_cast<std::byte>(number * kRanks + client));
  }
  static std::size_t size_of(std::uint64_t number) {
    constexpr std::array<std::size_t, 6> kSizes{20, 20, 24, 20, 70, 20};
    return kSizes.at(number % kSizes.size());
  }
  static Message request(std::uint64_t number, Rank client) { return message(number, client, size_of(number)); }
  static Message reply(std::uint64_t number, Rank client) { return message(number, client, size_of(number + 2)); }

  void serve() {
    Fabric& fabric = world_.fabric(kServer);
    const auto channel = fabric.open_channel();
    std::deque<ServedMailbox> mailboxes;
    std::array<std::uint64_t, kRanks> came{};
    for (Rank client = 1; client < kRanks; ++client) {
      mailboxes.emplace_back(fabric, *channel, end(kServer, client), kShape, scenario_.waking, scenario_.replies,
                             scenario_.rules);
    }
    const auto bell = memory_.at(kServer)->local().word<AtomicWord>(0);
    while (a_client_asks()) {
      const std::uint64_t rung = bell.load();
      bool idle = true;
      for (Rank client = 1; client < kRanks; ++client) {
        idle = !serve_once(mailboxes[client - 1], client, came.at(client)) && idle;
      }
      if (!idle) continue;
      (void)channel->wait_until(
          memory_.at(kServer)->local(), bell, [rung](std::uint64_t now) { return now != rung; }, fabric.in(kLook));
    }
  }

  [[nodiscard]] bool a_client_asks() {
    bool asks = false;
    for (Rank client = 1; client < kRanks; ++client) asks = asks || (!has_ended_.at(client) && world_.alive(client));
    return asks;
  }

  bool serve_once(ServedMailbox& mailbox, Rank client, std::uint64_t& came) {
    switch (mailbox.poll()) {
      case ServedMailbox::Came::nothing: return false;
      case ServedMailbox::Came::piece: return true;
      case ServedMailbox::Came::end:
        if (scenario_.gives_up) is_given_up_.at(client) = true;
        if (scenario_.dies != client && !scenario_.gives_up) {
          fail("the connection of client " + std::to_string(client) + " ended");
        }
        return false;
      case ServedMailbox::Came::request: break;
    }
    ++came;
    while (given_up_.at(client).contains(came) && !is(mailbox.request(), request(came, client))) ++came;
    if (!is(mailbox.request(), request(came, client))) {
      fail("request " + std::to_string(came) + " of client " + std::to_string(client) + " is not what came");
    }
    mailbox.reply(reply(came, client));
    return true;
  }

  void ask(Rank client) {
    Fabric& fabric = world_.fabric(client);
    auto& dice = world_.scheduler();
    const auto channel = fabric.open_channel();
    MailboxRequests requests(fabric, *channel, {end(client, client)}, kShape, scenario_.waking, scenario_.rules);
    std::deque<std::uint64_t> unanswered;
    for (std::uint64_t number = 1; number <= kRequests || !unanswered.empty();) {
      const bool hurries = scenario_.impatient && dice.one_in(4);
      const Deadline deadline = fabric.in(hurries ? kHaste : scenario_.timeout);
      if (number <= kRequests && (unanswered.empty() || dice.one_in(2))) {
        given_up_.at(client).insert(number);  // as long as it may not come
        const Outcome sent = requests.send(0, request(number, client), deadline);
        if (sent == Outcome::done) unanswered.push_back(number);
        if (sent == Outcome::done) given_up_.at(client).erase(number);
        if (!is_expected(sent, hurries, "send", client)) return;
        ++number;
        continue;
      }
      const auto received = requests.receive(0, deadline);
      if (!is_expected(received.status, hurries, "receive", client)) return;
      if (received.done() && !is(received.value, reply(unanswered.front(), client))) {
        fail("not the reply to request " + std::to_string(unanswered.front()));
      }
      unanswered.pop_front();
    }
  }

  // False when it is no use to go on. A call that has time succeeds, whatever was given up before it.
  bool is_expected(Outcome outcome, bool hurries, const std::string& what, Rank client) {
    const bool lost = outcome == Outcome::peer_lost && scenario_.dies == kServer;
    const bool late = outcome == Outcome::timed_out && hurries;
    const bool is_given_up = outcome == Outcome::timed_out && is_given_up_.at(client);
    if (outcome != Outcome::done && !lost && !late && !is_given_up) {
      fail("client " + std::to_string(client) + ": " + what + " " + std::string(to_string(outcome)));
      return false;
    }
    return !lost && !is_given_up;
  }

  static bool is(std::span<const std::byte> bytes, const Message& expected) {
    return std::ranges::equal(bytes, expected);
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const MailboxScenario scenario_;
  World world_;
  std::array<std::unique_ptr<team::SymmetricRegion>, kRanks> memory_;
  std::array<std::set<std::uint64_t>, kRanks> given_up_;  // by client: what may come or not
  Rank ready_ = 0;
  std::array<bool, kRanks> has_ended_{};
  std::array<bool, kRanks> is_given_up_{};  // by client
  std::optional<std::string> violation_;
};

constexpr std::uint64_t kSeeds = 100;

std::optional<std::string> violation(const MailboxScenario& scenario) {
  return sim::first_violation(kSeeds, [&](std::uint64_t seed) { return Run(seed, scenario).run(); });
}
void expect_no_violation(const MailboxScenario& scenario, const std::optional<sim::UnmetList>& unmet = {}) {
  const auto run = [&](std::uint64_t seed, sim::FaultCount& count) {
    return sim::run_counted(Run(seed, scenario), count);
  };
  sim::expect_kept(kSeeds, run, unmet);
}
/// By mapped memory, and where each parcel is flushed.
void expect_no_violation_either_way(MailboxScenario scenario) {
  expect_no_violation(scenario);
  scenario.by_memory = false;
  expect_no_violation(scenario);
}
/// How many clients were given up.
std::int64_t expect_no_violation_but_clients_given_up(const MailboxScenario& scenario) {
  std::int64_t given_up = 0;
  sim::expect_kept(kSeeds, [&](std::uint64_t seed, sim::FaultCount& count) {
    Run run(seed, scenario);
    auto violation = sim::run_counted(run, count);
    given_up += run.given_up();
    return violation;
  });
  testing::Test::RecordProperty("given_up", std::to_string(given_up));
  return given_up;
}

// Where words are split, what was in a slot before is rarely found whole.
bool caught(const MailboxRules& rules) {
  return sim::first_violation(10 * kSeeds, [&](std::uint64_t seed) { return Run(seed, {.rules = rules}).run(); })
      .has_value();
}

TEST(KvMailboxSim, CarriesEachMessageOnceAndInOrder) { expect_no_violation({}); }
TEST(KvMailboxSim, DoesSoWhereEachParcelIsFlushed) { expect_no_violation({.by_memory = false}); }
TEST(KvMailboxSim, DoesSoWithDoorbells) { expect_no_violation_either_way({.waking = Waking::doorbell}); }
TEST(KvMailboxSim, BearsPauses) { expect_no_violation_either_way({.pauses = 4}); }
// An attempt to reply is shorter than a pause, and so is the time to the next one. It is also shorter than each second
// step of a slow process takes: many attempts fail, so a client is not to wait ever longer for the next.
TEST(KvMailboxSim, BearsPausesLongerThanItsTimeouts) {
  constexpr ReplyTimeouts kShort{.attempt = std::chrono::microseconds(200),
                                 .between_attempts = std::chrono::microseconds(400),
                                 .most_between_attempts = std::chrono::milliseconds(10)};
  expect_no_violation_either_way({.pauses = 4, .replies = kShort});
  expect_no_violation_either_way({.waking = Waking::doorbell, .impatient = true, .pauses = 4, .replies = kShort});
}
// A client that is given up gets no answer any more, and none that is wrong; the others do.
TEST(KvMailboxSim, GivesUpAClientThatStopsForLongerThanItsTimeouts) {
  constexpr ReplyTimeouts kShort{.attempt = std::chrono::microseconds(200),
                                 .between_attempts = std::chrono::microseconds(200),
                                 .give_up = std::chrono::milliseconds(1)};
  const auto given_up = expect_no_violation_but_clients_given_up({.waking = Waking::doorbell,
                                                                  .by_memory = false,
                                                                  .timeout = std::chrono::milliseconds(50),
                                                                  .pauses = 4,
                                                                  .replies = kShort,
                                                                  .gives_up = true});
  EXPECT_GE(given_up, 10);
}
TEST(KvMailboxSim, SkipsWhatComesTooLate) { expect_no_violation_either_way({.impatient = true}); }
TEST(KvMailboxSim, SkipsWhatComesTooLateWithDoorbellsAndPauses) {
  expect_no_violation_either_way({.waking = Waking::doorbell, .impatient = true, .pauses = 4});
}
TEST(KvMailboxSim, ServesTheOthersWhenAClientDies) { expect_no_violation_either_way({.dies = 1}); }
TEST(KvMailboxSim, TellsWhenTheServerDies) { expect_no_violation_either_way({.dies = kServer}); }
TEST(KvMailboxSim, TellsWhenTheServerDiesWithDoorbells) {
  expect_no_violation_either_way({.waking = Waking::doorbell, .dies = kServer});
}

TEST(KvMailboxSim, BearsAllOfThisAtOnce) {
  expect_no_violation(
      {.waking = Waking::doorbell, .by_memory = false, .impatient = true, .pauses = 4, .dies = 1},
      sim::UnmetList{sim::nothing_is_revoked(),
                     sim::writes_complete_early(),
                     sim::fences_find_all_over(),
                     {"atomic", {Fault::answer_lost}, "the server lives"},
                     {"signal", {Fault::target_died}, "the server lives, and flushes what it writes", sim::kMayBeZero},
                     {"wait", {Fault::target_died}, "the server lives, and waits for any client"},
                     {"", {Fault::link_cut}, "no link is cut"},
                     {"atomic", {Fault::target_died}, "the server lives"},
                     {"WRITE", {Fault::link_broke}, "most WRITEs complete before", sim::kRare},
                     {"", {Fault::landed_given_up, Fault::timed_out}, "few are in a hurry and late", sim::kRare}});
}

TEST(KvMailboxSimRules, CatchesABodyThatIsNotLookedAt) { EXPECT_TRUE(caught({.looks_at_second_indicator = false})); }
TEST(KvMailboxSimRules, CatchesIndicatorsThatAreAnothersAsWell) {
  EXPECT_TRUE(caught({.indicators_name_sequences = false}));
}
TEST(KvMailboxSimRules, CatchesAParcelThatIsNotWrittenAgain) {
  EXPECT_TRUE(violation({.by_memory = false, .impatient = true, .rules = {.tries_again = false}}));
  EXPECT_TRUE(
      violation({.waking = Waking::doorbell, .by_memory = false, .impatient = true, .rules = {.tries_again = false}}));
}
TEST(KvMailboxSimRules, CatchesASlotThatIsUsedAgainWithoutAFence) { EXPECT_TRUE(caught({.fences_slots = false})); }

}  // namespace
}  // namespace farside::kv
