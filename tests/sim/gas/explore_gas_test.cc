// Every schedule of gas's small cases: pages of one or two words at rank 0; rank 1 uses them, rank 2 moves them. Cases
// are also run with a rule broken, to show that they can tell.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/fabric/small_program.h"
#include "tests/sim/gas/page_user.h"

namespace farside::sim {
namespace {

constexpr std::uint64_t kValue = 42;

struct User : PageUser {
  using PageUser::PageUser;

  [[nodiscard]] Deadline soon() const { return memory.fabric().in(std::chrono::seconds(1)); }
  /// The same in each word of the page.
  bool put(std::uint64_t word = kValue, gas::PageId page = 0) {
    std::vector<std::uint64_t> words(page_words(), word);
    return accessor.put({page, 0, LocalSpan(words.data(), 8 * words.size())}, soon()).done();
  }
  /// None where the words differ.
  std::optional<std::uint64_t> get(gas::PageId page = 0) {
    std::vector<std::uint64_t> words(page_words());
    const bool done = accessor.get({page, 0, LocalSpan(words.data(), 8 * words.size())}, soon()).done();
    return done && words.front() == words.back() ? std::optional(words.front()) : std::nullopt;
  }
  bool own(gas::PageId page = 0) { return mover.own({&page, 1}, soon()).pages == 1; }

  [[nodiscard]] std::uint64_t page_words() const { return memory.layout().shape().page_bytes / 8; }
};

class Pages {
 public:
  static constexpr team::Rank kRanks = 3;

  /// `count` of them, and as many slots at each rank; or 2.
  explicit Pages(const gas::GasRules& rules, std::uint64_t count = 1, std::uint64_t words = 1)
      : rules_(rules), count_(count), words_(words), small_(kRanks, harsh()), memories_(kRanks), users(kRanks) {}

  /// Rank 1 knows where they are. The first has 0, the second kValue.
  void run(Chooser& chooser, const std::vector<std::function<void()>>& parts) {
    small_.run(
        chooser,
        [&](team::Rank rank) {
          const gas::PageShape shape{.pages = count_,
                                     .page_bytes = 8 * words_,
                                     .slots = std::max<std::uint64_t>(count_, 2),
                                     .cached_places = count_};
          memories_[rank] = std::make_unique<gas::PageMemory>(
              small_.world.team(rank), "pages", gas::PageSettings{shape, [](gas::PageId) { return 0; }}, rules_);
          users[rank] = std::make_unique<User>(*memories_[rank]);
          if (rank != 1) return;
          second = std::make_unique<User>(*memories_[1]);
          for (gas::PageId page = 0; page < count_; ++page) {
            EXPECT_EQ(users[1]->get(page), 0u);
            EXPECT_EQ(second->get(page), 0u);
          }
          EXPECT_TRUE(count_ == 1 || users[1]->put(kValue, 1));
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
  void on(team::Rank rank, std::function<void()> body) { small_.world.on(rank, std::move(body)); }

 private:
  const gas::GasRules rules_;
  const std::uint64_t count_;
  const std::uint64_t words_;
  Small small_;
  std::vector<std::unique_ptr<gas::PageMemory>> memories_;

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
Exploration put_against_own(const gas::GasRules& rules, std::uint64_t words = 1) {
  return explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages(rules, 1, words);
        bool done = false;
        pages.run(chooser, {[] {}, [&] { done = pages.users[1]->put(); }, [&] { (void)pages.users[2]->own(); }});
        return done && pages.word() == kValue ? std::nullopt : std::optional<std::string>("a put was lost");
      },
      kMaxSchedules);
}

TEST(ExploreGas, APutIsInThePageHoweverThatIsMoved) { expect_never(put_against_own({})); }
TEST(ExploreGas, APutOfTwoWordsIsInThePageHoweverThatIsMoved) { expect_never(put_against_own({}, 2)); }
TEST(ExploreGasRules, FindsAHoldWithoutAFence) { EXPECT_TRUE(put_against_own({.fences_hold = false}).violation); }
TEST(ExploreGasRules, FindsAPutWithoutALookBefore) {
  EXPECT_TRUE(put_against_own({.looks_before_writing = false}).violation);
}
TEST(ExploreGasRules, FindsAMoveThatWaitsForNoHold) { EXPECT_TRUE(put_against_own({.awaits_holds = false}).violation); }

// Who was revoked asks again, and its next put goes to the new place.
TEST(ExploreGas, ThePutAfterAMoveIsInThePage) {
  expect_never(explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages({});
        bool done = false;
        const auto put_twice = [&] { done = pages.users[1]->put(1) && pages.users[1]->put(2); };
        pages.run(chooser, {[] {}, put_twice, [&] { (void)pages.users[2]->own(); }});
        return done && pages.word() == 2 ? std::nullopt : std::optional<std::string>("a put was lost");
      },
      kMaxSchedules));
}

// A hold grows with each page that is put to at once.
Exploration puts_to_two_pages_against_own(const gas::GasRules& rules) {
  return explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages(rules, 2);
        std::uint64_t word = kValue;
        bool done = false;
        const auto put_to_both = [&] {
          User& user = *pages.users[1];
          for (const gas::PageId page : {0U, 1U}) user.accessor.begin_put({page, 0, LocalSpan(word)});
          done = user.accessor.finish(user.soon()).done();
        };
        pages.run(chooser, {[] {}, put_to_both, [&] { (void)pages.users[2]->own(); }});
        return done && pages.word() == kValue ? std::nullopt : std::optional<std::string>("a put was lost");
      },
      kMaxSchedules);
}
TEST(ExploreGas, PutsToTwoPagesAreInThemHoweverOneIsMoved) { expect_never(puts_to_two_pages_against_own({})); }
TEST(ExploreGasRules, FindsAGrownHoldTakenForAnotherOne) {
  EXPECT_TRUE(puts_to_two_pages_against_own({.awaits_grown_holds = false}).violation);
}

// The page is moved, and its old slot used for another page, while it is being read.
Exploration get_against_own_and_another_page_in_the_slot(const gas::GasRules& rules, std::uint64_t words = 1) {
  return explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages(rules, 2, words);
        std::optional<std::uint64_t> found;
        const auto move_and_fill = [&] {
          User& mover = *pages.users[2];
          (void)(mover.own(0) && mover.own(1));
          pages.on(0, [&] { (void)(pages.users[0]->own(0) && pages.users[0]->own(1)); });  // each in the other's slot
        };
        pages.run(chooser, {[] {}, [&] { found = pages.users[1]->get(); }, move_and_fill});
        return found == 0 ? std::nullopt : std::optional<std::string>("a get found another page");
      },
      kMaxSchedules);
}
TEST(ExploreGas, AGetFindsItsPageThoughTheSlotIsUsedAgain) {
  expect_never(get_against_own_and_another_page_in_the_slot({}));
}
TEST(ExploreGas, AGetOfTwoWordsFindsItsPageThoughTheSlotIsUsedAgain) {
  expect_never(get_against_own_and_another_page_in_the_slot({}, 2));
}
TEST(ExploreGasRules, FindsAGetWithoutALookAfterwards) {
  EXPECT_TRUE(get_against_own_and_another_page_in_the_slot({.looks_after_reading = false}).violation);
}

TEST(ExploreGasRules, FindsAGetDuringAMoveWithoutALookAfterwards) {
  EXPECT_TRUE(get_against_own_and_another_page_in_the_slot({.looks_again_while_moving = false}).violation);
}

// Both bring it, one after the other.
TEST(ExploreGas, TwoWhoOwnAPageDoSoOneAfterTheOther) {
  expect_never(explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages({});
        bool first = false;
        bool second = false;
        pages.run(chooser, {[] {}, [&] { first = pages.users[1]->own(); }, [&] { second = pages.users[2]->own(); }});
        return first && second && pages.word() == 0 ? std::nullopt : std::optional<std::string>("one did not");
      },
      kMaxSchedules));
}

// Two threads of one rank, each with its own hold.
TEST(ExploreGas, AnAdditionByEachOfTwoThreadsIsMadeOnceHoweverThePageIsMoved) {
  expect_never(explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages({});
        const auto add = [](User& user) { (void)user.accessor.fetch_add(0, 0, 1, user.soon()); };
        pages.run(chooser, {[] {},
                            [&] {
                              pages.on(1, [&] { add(*pages.second); });
                              add(*pages.users[1]);
                            },
                            [&] { (void)pages.users[2]->own(); }});
        return pages.word() == 2 ? std::nullopt : std::optional<std::string>("an addition was lost, or made twice");
      },
      kMaxSchedules));
}

// An addition is made once.
TEST(ExploreGas, AnAdditionIsMadeOnceHoweverThePageIsMoved) {
  expect_never(explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Pages pages({});
        const auto add = [&] { (void)pages.users[1]->accessor.fetch_add(0, 0, 1, pages.users[1]->soon()); };
        pages.run(chooser, {[] {}, add, [&] { (void)pages.users[2]->own(); }});
        return pages.word() == 1 ? std::nullopt : std::optional<std::string>("an addition was lost, or made twice");
      },
      kMaxSchedules));
}

}  // namespace
}  // namespace farside::sim
