// Every schedule of gas's small cases: a page of one word at rank 0, its home; rank 1 uses it, rank 2 moves it. Each
// case is also run with a rule broken, to show that it can tell.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gas/protocol/mover.h"
#include "tests/sim/small_program.h"

namespace farside::sim {
namespace {

constexpr std::uint64_t kValue = 42;

// What a thread uses pages with.
struct User {
  explicit User(PageMemory& pages) : memory(pages), accessor(pages), mover(accessor) {}

  [[nodiscard]] Deadline soon() const { return memory.fabric().in(std::chrono::seconds(1)); }
  bool put() {
    std::uint64_t word = kValue;
    return accessor.put({0, 0, LocalSpan(word)}, soon()).done();
  }
  std::optional<std::uint64_t> get() {
    std::uint64_t word = 0;
    return accessor.get({0, 0, LocalSpan(word)}, soon()).done() ? std::optional(word) : std::nullopt;
  }
  bool own() {
    const PageId page = 0;
    return mover.own({&page, 1}, soon()).ended.done();
  }

  PageMemory& memory;
  Accessor accessor;
  Mover mover;
};

class Pages {
 public:
  Pages(Rank ranks, const Network& network, const GasRules& rules)
      : rules_(rules), small_(ranks, network), memories_(ranks), users(ranks) {}

  /// Rank 1 knows where the page is.
  void run(Chooser& chooser, const std::vector<std::function<void()>>& parts) {
    small_.run(
        chooser,
        [&](Rank rank) {
          const PageShape shape{.pages = 1, .page_bytes = 8, .slots = 2, .cached_places = 1};
          memories_[rank] = std::make_unique<PageMemory>(small_.world.team(rank), "pages",
                                                         PageSettings{shape, [](PageId) { return 0; }}, rules_);
          users[rank] = std::make_unique<User>(*memories_[rank]);
          if (rank != 1) return;
          EXPECT_EQ(users[1]->get(), 0u);
          second = std::make_unique<User>(*memories_[1]);
          EXPECT_EQ(second->get(), 0u);
        },
        parts);
  }
  /// What the word is when nothing is under way.
  std::optional<std::uint64_t> word() {
    std::optional<std::uint64_t> found;
    small_.world.on(0, [&] { found = users[0]->get(); });
    EXPECT_TRUE(small_.world.run(kLong));
    return found;
  }
  void on(Rank rank, std::function<void()> body) { small_.world.on(rank, std::move(body)); }

 private:
  const GasRules rules_;
  Small small_;
  std::vector<std::unique_ptr<PageMemory>> memories_;

 public:
  std::vector<std::unique_ptr<User>> users;  // by rank
  std::unique_ptr<User> second;              // another thread of rank 1
};

void expect_never(const Exploration& exploration) {
  EXPECT_FALSE(exploration.violation) << *exploration.violation;
  EXPECT_TRUE(exploration.complete) << "after " << exploration.schedules << " schedules";
  EXPECT_GE(exploration.schedules, 10u);
  testing::Test::RecordProperty("schedules", std::to_string(exploration.schedules));
}

// A put that returned is in the page.
Exploration put_against_own(const GasRules& rules) {
  return explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages(3, harsh(), rules);
        bool done = false;
        pages.run(chooser, {[] {}, [&] { done = pages.users[1]->put(); }, [&] { (void)pages.users[2]->own(); }});
        return done && pages.word() == kValue ? std::nullopt : std::optional<std::string>("a put was lost");
      },
      kMostSchedules);
}

TEST(ExploreGas, APutIsInThePageHoweverThatIsMoved) { expect_never(put_against_own({})); }
TEST(ExploreGas, FindsAHoldWithoutAFence) { EXPECT_TRUE(put_against_own({.fences_hold = false}).violation); }
TEST(ExploreGas, FindsAPutWithoutALookBefore) {
  EXPECT_TRUE(put_against_own({.looks_before_writing = false}).violation);
}
TEST(ExploreGas, FindsAMoveThatWaitsForNoHold) { EXPECT_TRUE(put_against_own({.awaits_holds = false}).violation); }
// Two threads of one rank, each with its own hold.
TEST(ExploreGas, AnAdditionByEachOfTwoThreadsIsMadeOnceHoweverThePageIsMoved) {
  expect_never(explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages(3, harsh(), {});
        const auto add = [](User& user) { (void)user.accessor.fetch_add(0, 0, 1, user.soon()); };
        pages.run(chooser, {[] {},
                            [&] {
                              pages.on(1, [&] { add(*pages.second); });
                              add(*pages.users[1]);
                            },
                            [&] { (void)pages.users[2]->own(); }});
        return pages.word() == 2 ? std::nullopt : std::optional<std::string>("an addition was lost, or made twice");
      },
      kMostSchedules));
}

// An addition is made once.
TEST(ExploreGas, AnAdditionIsMadeOnceHoweverThePageIsMoved) {
  expect_never(explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages(3, harsh(), {});
        const auto add = [&] { (void)pages.users[1]->accessor.fetch_add(0, 0, 1, pages.users[1]->soon()); };
        pages.run(chooser, {[] {}, add, [&] { (void)pages.users[2]->own(); }});
        return pages.word() == 1 ? std::nullopt : std::optional<std::string>("an addition was lost, or made twice");
      },
      kMostSchedules));
}

}  // namespace
}  // namespace farside::sim
