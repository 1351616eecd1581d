// What a table of matches does when two threads of one rank begin a round at once, and when its rounds wrap around.
#include "comm/protocol/match_table.h"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/in_process_team.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using comm::MatchTable;
using team::Rank;

using End = MatchTable::End;
using State = MatchTable::State;

constexpr Rank kRanks = 2;
constexpr Rank kSource = 0;
constexpr Rank kDestination = 1;
constexpr std::uint64_t kKeys = 1;

using AfterLoad = std::function<void()>;

/// Reports the owner's loads.
class WatchedRegion final : public Region, private LocalObserver {
 public:
  WatchedRegion(std::unique_ptr<Region> inner, const AfterLoad& after_load)
      : Region(inner->name(), inner->span(0, inner->bytes()).adapter_data(), inner->bytes(), this),
        inner_(std::move(inner)),
        after_load_(after_load) {}

  [[nodiscard]] std::string handle() const override { return inner_->handle(); }
  void wake() const override { inner_->wake(); }

 private:
  std::uint64_t load(std::uint64_t offset) override {
    const std::uint64_t value = inner_->word<AtomicWord>(offset).load();
    if (const AfterLoad act = after_load_) act();  // by copy: it may change itself
    return value;
  }
  void store(std::uint64_t offset, std::uint64_t value) override { inner_->word<ControlWord>(offset).store(value); }
  void copy_in(std::uint64_t offset, std::span<const std::byte> bytes) override { inner_->copy_in(offset, bytes); }
  void copy_out(std::uint64_t offset, std::span<std::byte> bytes) override { inner_->copy_out(offset, bytes); }

  const std::unique_ptr<Region> inner_;
  const AfterLoad& after_load_;
};

/// A rank whose memory a test can fill before it is used, and whose loads from it a test can follow.
class WatchedTeam final : public team::Team {
 public:
  WatchedTeam(team::Team& inner, MeetingPoint& meeting) : inner_(inner), meeting_(meeting) {}

  AfterLoad after_load;
  std::function<void(const Region&)> fill;

  [[nodiscard]] Rank rank() const override { return inner_.rank(); }
  [[nodiscard]] Rank size() const override { return inner_.size(); }
  [[nodiscard]] Fabric& fabric() override { return inner_.fabric(); }
  [[nodiscard]] std::uint16_t incarnation() const override { return inner_.incarnation(); }
  [[nodiscard]] std::unique_ptr<team::SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) override {
    auto local = fabric().create_region(name, bytes);
    if (fill) fill(*local);
    meeting_.handles[rank()] = local->handle();
    meeting_.barrier.arrive_and_wait();
    std::vector<std::unique_ptr<RemoteRegion>> all;
    for (Rank other = 0; other < size(); ++other) all.push_back(fabric().attach(other, meeting_.handles[other]));
    meeting_.barrier.arrive_and_wait();
    return std::make_unique<team::SymmetricRegion>(std::make_unique<WatchedRegion>(std::move(local), after_load),
                                                   std::make_shared<team::Pieces>(std::move(all)));
  }
  Outcome barrier(Deadline deadline) override { return inner_.barrier(deadline); }
  [[nodiscard]] std::uint64_t epoch() const override { return inner_.epoch(); }
  Outcome evict(Rank rank, Deadline deadline) override { return inner_.evict(rank, deadline); }

 private:
  team::Team& inner_;
  MeetingPoint& meeting_;
};

/// A source and a destination with one key between them, and places of 8 bytes.
class Pair {
 public:
  explicit Pair(const comm::MatchRules& rules = {}, const std::function<void(Rank, const Region&)>& fill = {}) {
    for (Rank rank = 0; rank < kRanks; ++rank) {
      watched_[rank] = std::make_unique<WatchedTeam>(*teams_[rank], meeting_);
      if (fill) watched_[rank]->fill = [fill, rank](const Region& region) { fill(rank, region); };
    }
    on_all_ranks(kRanks, [&](Rank rank) {
      places_[rank] = teams_[rank]->allocate("places", 64);
      tables_[rank] = std::make_unique<MatchTable>(
          *watched_[rank], "matches", std::vector<const team::SymmetricRegion*>{places_[rank].get()}, kKeys, rules);
    });
  }

  /// Has `act` called once, after the next load of `rank` from the table's memory.
  void after_next_load(Rank rank, const std::function<void()>& act) {
    AfterLoad& hook = watched_[rank]->after_load;
    hook = [&hook, act] {
      hook = {};
      act();
    };
  }

  std::optional<MatchTable::Ticket> open(End end) {
    const Rank self = end == End::source ? kSource : kDestination;
    return tables_[self]->open(end, 1 - self, 0);
  }
  Outcome meet(const MatchTable::Ticket& ticket, std::uint64_t place, std::uint64_t bytes = 8) {
    const auto channel = team(ticket).fabric().open_channel();
    return table(ticket).meet(*channel, ticket, {0, 8 * place, bytes}, team(ticket).fabric().in(kLimit));
  }
  State state(const MatchTable::Ticket& ticket) { return table(ticket).state(ticket); }
  [[nodiscard]] LocalWord<ControlWord> word(Rank rank, std::uint64_t place) {
    return places_[rank]->local().word<ControlWord>(8 * place);
  }

 private:
  static inline const Duration kLimit = extended(std::chrono::seconds(30));

  static Rank self(const MatchTable::Ticket& ticket) { return ticket.end == End::source ? kSource : kDestination; }
  MatchTable& table(const MatchTable::Ticket& ticket) { return *tables_[self(ticket)]; }
  team::Team& team(const MatchTable::Ticket& ticket) { return *teams_[self(ticket)]; }

  MeetingPoint meeting_{kRanks};
  std::vector<std::unique_ptr<InProcessTeam>> teams_ = make_teams(kRanks);
  std::array<std::unique_ptr<WatchedTeam>, kRanks> watched_;
  std::array<std::unique_ptr<team::SymmetricRegion>, kRanks> places_;
  std::array<std::unique_ptr<MatchTable>, kRanks> tables_;
};

// One thread has looked at how many rounds have ended; before it goes on, another one goes through that round and
// offers place 1 in the next. What the first thread then offers, place 2, must not be what the destination gets.
// `timeout` is for the other thread, which may have to wait for the first one.
void begin_at_once(Pair& pair, Duration timeout) {
  pair.word(kSource, 1).store(111);
  pair.word(kSource, 2).store(222);
  std::atomic<bool> other_is_through = false;
  std::jthread other;
  const auto offer_twice = [&] {
    const auto first = pair.open(End::source);
    if (!first || pair.meet(*first, 0) != Outcome::done) return;
    const auto claim = pair.open(End::destination);
    if (!claim || pair.meet(*claim, 0) != Outcome::done) return;
    const auto second = pair.open(End::source);
    if (second && pair.meet(*second, 1) == Outcome::done) other_is_through = true;
  };
  pair.after_next_load(kSource, [&] {
    other = std::jthread(offer_twice);
    const auto until = std::chrono::steady_clock::now() + timeout;
    while (!other_is_through && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  });
  const auto mine = pair.open(End::source);
  if (mine) (void)pair.meet(*mine, 2);
  other.join();
}

/// What the destination gets in the next round.
std::uint64_t claim_next(Pair& pair) {
  const auto claim = pair.open(End::destination);
  EXPECT_TRUE(claim && pair.meet(*claim, 0) == Outcome::done && pair.state(*claim) == State::transferred);
  return pair.word(kDestination, 0).load();
}

TEST(MatchTable, GivesARoundToOneOfTwoThreads) {
  Pair pair;
  begin_at_once(pair, std::chrono::milliseconds(100));  // the other one waits until this one has a round
  EXPECT_EQ(claim_next(pair), 222U);                    // of the first round: the other found its key in use
  EXPECT_TRUE(pair.open(End::source).has_value());
}

TEST(MatchTableRules, CatchesALookBeforeTheLock) {
  Pair pair({.looks_under_lock = false});
  begin_at_once(pair, extended(std::chrono::seconds(30)));
  EXPECT_EQ(claim_next(pair), 222U);  // though the offer that met was of place 1
}

/// As after so many rounds, all of which fitted: the words `ended`, then the entry of rank 0 (match_table.h).
void fill_as_after(std::uint64_t rounds, const Region& memory) {
  for (std::uint64_t at = 0; at < 2 * kRanks * kKeys; ++at) {
    memory.copy_in(8 * at, std::as_bytes(std::span(&rounds, 1)));
  }
  const std::uint64_t state = rounds << 2U;
  memory.copy_in(64, std::as_bytes(std::span(&state, 1)));
}

/// How rounds end that begin at 2^32 - 2: some fit, some do not.
std::vector<State> ends_around_the_wrap(const comm::MatchRules& rules) {
  Pair pair(rules, [](Rank /*rank*/, const Region& memory) { fill_as_after(0xffff'fffe, memory); });
  std::vector<State> ends;
  for (const bool fits : {true, true, false, true}) {
    const auto offer = pair.open(End::source);
    const auto claim = pair.open(End::destination);
    if (!offer || !claim) break;
    EXPECT_EQ(pair.meet(*offer, 0), Outcome::done);
    EXPECT_EQ(pair.meet(*claim, 0, fits ? 8 : 16), Outcome::done);
    EXPECT_EQ(pair.state(*offer), pair.state(*claim));
    ends.push_back(pair.state(*claim));
  }
  return ends;
}

const std::vector<State> kAsTheyFit = {State::transferred, State::transferred, State::did_not_fit, State::transferred};

TEST(MatchTable, CountsRoundsAroundTheirEnd) { EXPECT_EQ(ends_around_the_wrap({}), kAsTheyFit); }
TEST(MatchTableRules, CatchesACarryFromTheRounds) {
  EXPECT_NE(ends_around_the_wrap({.rounds_wrap_alone = false}), kAsTheyFit);
}

}  // namespace
}  // namespace farside::test
