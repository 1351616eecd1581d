// Every schedule of small programs: what the memory model allows comes about in one of them, and what it forbids in
// none.
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/sim/fabric/small_program.h"

namespace farside::sim {
namespace {

// What one process stores under its own eyes or WRITEs, another READs.
class Words {
 public:
  explicit Words(const Network& network = harsh()) : small_(2, network) {}

  struct Side {
    std::unique_ptr<team::SymmetricRegion> memory;
    std::unique_ptr<Channel> channel;
    Fabric& fabric;
    [[nodiscard]] Deadline soon() const { return fabric.in(std::chrono::seconds(1)); }
  };
  using Program = std::function<void(Side&)>;

  void run(Chooser& chooser, const Program& first, const Program& second) {
    small_.run(chooser,
               [this](team::Rank rank) {
                 sides_[rank].emplace(Side{small_.world.team(rank).allocate("words", 64),
                                           small_.world.fabric(rank).open_channel(), small_.world.fabric(rank)});
               },
               {[&] { first(*sides_[0]); }, [&] { second(*sides_[1]); }});
  }

 private:
  Small small_;
  std::array<std::optional<Side>, 2> sides_;
};

using Side = Words::Side;

// Two words that process 0 fills while process 1 READs both: which pairs it can find.
std::set<std::pair<std::uint64_t, std::uint64_t>> pairs_found(const Words::Program& fill, Exploration& exploration) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> found;
  exploration = explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        std::array<std::uint64_t, 2> pair{};
        Words words;
        words.run(chooser, fill, [&](Side& me) {
          std::array<std::uint64_t, 2> read{};
          EXPECT_EQ(me.channel->read(LocalSpan(read), me.memory->of(0).span(0, 16), me.soon()), Outcome::done);
          pair = read;
        });
        found.emplace(pair[0], pair[1]);
        return std::nullopt;
      },
      kMaxSchedules);
  return found;
}

TEST(SimExplore, FindsEveryMixtureThatAReadCanBe) {
  Exploration exploration;
  const auto found = pairs_found(
      [](Side& me) {
        me.memory->local().word<ControlWord>(0).store(1);
        me.memory->local().word<ControlWord>(8).store(1);
      },
      exploration);
  using Pairs = std::set<std::pair<std::uint64_t, std::uint64_t>>;
  EXPECT_TRUE(exploration.complete);
  EXPECT_EQ(found, (Pairs{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  EXPECT_LE(exploration.schedules, 8u) << "schedules that differ in nothing that matters";
}

// The reader takes the flag first, awaits it, and then the data.
bool flag_overtakes_data(bool fenced, Exploration& exploration) {
  exploration = explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        bool overtaken = false;
        Words words;
        words.run(
            chooser,
            [&](Side& me) {
              me.memory->local().word<ControlWord>(0).store(7);
              if (fenced) me.channel->local_fence();
              me.memory->local().word<ControlWord>(8).store(1);
            },
            [&](Side& me) {
              const auto word = [&](std::uint64_t at) { return me.memory->of(0).word<ControlWord>(at); };
              const bool flag = me.channel->load(word(8), me.soon()).value == 1;
              overtaken = flag && me.channel->load(word(0), me.soon()).value != 7;
            });
        return overtaken ? std::optional<std::string>("overtaken") : std::nullopt;
      },
      kMaxSchedules);
  return exploration.violation.has_value();
}

TEST(SimExplore, FindsAFlagThatOvertakesItsDataUnlessFenced) {
  Exploration exploration;
  EXPECT_TRUE(flag_overtakes_data(false, exploration));
  EXPECT_FALSE(flag_overtakes_data(true, exploration));
  EXPECT_TRUE(exploration.complete);
}

TEST(SimExplore, FindsNoLostUpdateOfTwoAtomics) {
  const auto exploration = explore(
      [](Chooser& chooser) -> std::optional<std::string> {
        Words words;
        std::uint64_t sum = 0;
        const auto add = [&](Side& me) {
          const Result<std::uint64_t> old = me.channel->fetch_add(me.memory->of(0).word<AtomicWord>(0), 1, me.soon());
          sum += old.value;
        };
        words.run(chooser, add, add);
        return sum == 1 ? std::nullopt : std::optional<std::string>("both saw the same");
      },
      kMaxSchedules);
  EXPECT_FALSE(exploration.violation);
  EXPECT_TRUE(exploration.complete);
  EXPECT_GE(exploration.schedules, 2u);
}

// Instead of every schedule, one by chance.
class Chance final : public Chooser {
 public:
  explicit Chance(std::uint64_t seed) : dice_(seed) {}
  std::optional<std::uint64_t> choose(std::span<const std::uint64_t> ready) override {
    return ready[dice_.random() % ready.size()];
  }
  void time_passes() override {}
  void made(std::uint64_t /*number*/) override {}
  void touched(std::uint64_t /*place*/, Access /*access*/) override {}

 private:
  Scheduler dice_;
};

// What two processes find when each looks at what the other does, with atomics, WRITEs and own stores.
std::string what_both_find(Chooser& chooser) {
  std::string found;
  Words words;
  const auto note = [&](const char* who, std::uint64_t value) { found += who + std::to_string(value) + " "; };
  std::uint64_t seen_by_first = 0;
  std::array<std::uint64_t, 2> seen_by_second{};
  words.run(
      chooser,
      [&](Side& me) {
        me.memory->local().word<ControlWord>(0).store(1);
        me.memory->local().word<ControlWord>(0).store(2);
        seen_by_first = me.channel->fetch_add(me.memory->of(1).word<AtomicWord>(16), 1, me.soon()).value;
        me.memory->local().word<ControlWord>(8).store(3);
      },
      [&](Side& me) {
        std::uint64_t four = 4;
        (void)me.channel->write(me.memory->of(1).span(16, 8), LocalSpan(four), me.soon());
        (void)me.channel->read(LocalSpan(seen_by_second), me.memory->of(0).span(0, 16), me.soon());
      });
  note("first ", seen_by_first);
  note("second ", seen_by_second[0]);
  note("and ", seen_by_second[1]);
  return found;
}

// The reduction leaves out nothing: whatever chance finds, it has found.
TEST(SimExplore, FindsWhateverChanceFinds) {
  std::set<std::string> by_chance;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Chance chance(seed);
    by_chance.insert(what_both_find(chance));
  }
  std::set<std::string> by_exploring;
  const auto exploration = explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        by_exploring.insert(what_both_find(chooser));
        return std::nullopt;
      },
      kMaxSchedules);
  EXPECT_TRUE(exploration.complete);
  EXPECT_GE(by_chance.size(), 8u);
  for (const std::string& outcome : by_chance) EXPECT_TRUE(by_exploring.contains(outcome)) << outcome;
}

}  // namespace
}  // namespace farside::sim
