// What programs rely on: relaxed or strict makes no difference, memory is bounded, and mistakes and deaths are told.
#include "farside/arrays/world.h"

#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "farside/arrays/arrays.h"

#include "tests/arrays/stage.h"
#include "tests/support/death_watch.h"
#include "tests/support/interposed_team.h"

namespace farside::test {
namespace {

using namespace arrays;  // operators and functions

const std::string kBroken = "the connection to a rank broke";

/// Any operations, one after the other, on fractions. The same for the same seed.
std::vector<double> run_some_program(World& world, std::uint64_t seed) {
  Dice dice(seed);
  auto a = filled<2>(world, seed, {41, 30});
  a /= 7;
  Array<double, 1> totals(world, {30});
  for (std::uint64_t step = 0; step < reduced(60); ++step) {
    switch (dice.between(0, 5)) {
      case 0: a = a + 0.3 * cshift(a, static_cast<std::size_t>(dice.between(0, 1)), dice.between(-50, 50)); break;
      case 1: a = eoshift(a, 1, dice.between(-3, 3), 0.1) / 3; break;
      case 2: a = redistribute(transpose(transpose(a)), {}) * 1.7; break;
      case 3: totals += sum(a, 0) / 3; break;
      case 4: a -= sum(a) / 1230; break;
      default: a = where(a < sum(totals), a, a / 1.1); break;
    }
  }
  std::vector<double> results = gather_all(a);
  for (const double total : gather_all(totals)) results.push_back(total);
  return results;
}

// Without the relaxation, and with it, a program computes the same bits; and with it none of its ranks waits for a
// barrier more often than there are batches.
TEST(World, ComputesTheSameRelaxedAndStrict) {
  Fleet fleet(4, [](Member& me) {
    FleetTeam team(me);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      std::vector<double> strict;
      std::vector<double> relaxed;
      {
        World world(team, small_world(true));
        strict = run_some_program(world, seed);
      }
      {
        World world(team, small_world(false));
        relaxed = run_some_program(world, seed);
      }
      ASSERT_EQ(strict.size(), relaxed.size());
      ASSERT_EQ(std::memcmp(strict.data(), relaxed.data(), strict.size() * sizeof(double)), 0) << seed;
    }
  });
  fleet.expect_success();
}

// A loop that makes a new array each time goes on in the same memory.
TEST(World, RunsInBoundedMemory) {
  in_both_worlds(3, [](World& world) {
    auto a = filled<1>(world, 1, {30'000});
    const std::uint64_t one = world.memory().in_use;
    for (std::uint64_t round = 0; round < reduced(200); ++round) a = cshift(a, 0, 10'000);
    const arrays::MemoryUse use = world.memory();
    EXPECT_EQ(use.in_use, one);
    EXPECT_LE(use.held_back, small_world().held_bytes);
    EXPECT_LE(use.reserved, 2 * small_world().held_bytes);
    EXPECT_LE(use.high_water, use.reserved);
  });
}

// A rank that is ahead of its receivers by more operations than there are words does not disturb them.
TEST(World, LetsARankRunAhead) {
  in_both_worlds(2, [](World& world) {
    const auto first = filled<1>(world, 1, {10});
    if (world.rank() == 1) world.comm().team().fabric().sleep(std::chrono::milliseconds(50));
    std::vector<Array<double, 1>> all;
    for (std::int64_t step = 0; step < 100; ++step)
      all.push_back(eoshift(Array(first + step), 0, -5, 0.25));  // from 0 to 1
    for (std::int64_t step = 0; step < 100; ++step) {
      expect_each(all[static_cast<std::size_t>(step)],
                  [step](auto i) { return i < 5 ? 0.25 : value(1, i - 5) + static_cast<double>(step); });
    }
  });
}

/// What `body` throws.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

// Ranks that issued different operations are told so, with the next message or the next reduction.
TEST(World, TellsRanksThatTheyDiffer) {
  Fleet fleet(2, [](Member& me) {
    FleetTeam team(me);
    for (const bool reduces : {false, true}) {
      World world(team, small_world());
      const auto a = filled<1>(world, 1, {10});
      std::optional<Array<double, 1>> other;
      if (world.rank() == 1) other = a;
      const std::string error = error_of([&] {
        if (reduces) {
          (void)sum(a);
        } else {
          (void)cshift(a, 0, 1);
        }
      });
      EXPECT_NE(error.find("issued different operations"), std::string::npos) << error;
      me.barrier();
    }
  });
  fleet.expect_success();
}

// A wait for a rank that never comes ends, and says what to do.
TEST(World, EndsWaitsThatAreTooLong) {
  Fleet fleet(2, [](Member& me) {
    FleetTeam team(me);
    WorldOptions options = small_world();
    options.time_out = std::chrono::seconds(1);
    World world(team, options);
    const auto a = filled<1>(world, 1, {10});
    if (world.rank() == 0) {
      const std::string error = error_of([&] { (void)cshift(a, 0, 1); });
      EXPECT_NE(error.find("timed out after 1 s"), std::string::npos) << error;
    }
    me.barrier();
    if (world.rank() == 1) (void)error_of([&] { world.expect({Outcome::timed_out, {}}, "leave"); });  // as the other
  });
  fleet.expect_success();
}

// A World goes after a failure although a rank has not taken what was sent to it: the memory goes after what is sent.
TEST(World, GoesAfterAFailureWithElementsUnderWay) {
  Shared<std::atomic<unsigned>> step;
  const auto reach = [&](unsigned wanted) { ASSERT_TRUE(eventually([&] { return *step >= wanted; })); };
  Fleet fleet(2, [&](Member& me) {
    FleetTeam team(me);
    WorldOptions options = small_world();
    options.time_out = std::chrono::seconds(1);
    options.segment_bytes = 8U << 20U;  // so that no more is allocated together
    {
      World world(team, options);
      const auto a = filled<1>(world, 1, {1 << 18});
      me.barrier();
      if (me.index() == 1) return (void)::pause();  // until it is killed
      *step = 1;
      reach(2);
      EXPECT_NE(error_of([&] { (void)cshift(a, 0, 1 << 17); }), "none");
      *step = 3;
    }
    *step = 4;
  });
  reach(1);
  fleet.stop(1);
  *step = 2;
  reach(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the World is going
  fleet.signal(1, SIGCONT);
  reach(4);
  EXPECT_EQ(fleet.wait(0), 0);
}

// Of what was sent to several ranks the first has failed, and what was sent after it has not: the sender is told of the
// failure, before it changes what was sent and, when it has not asked before, as its World goes.
TEST(World, TellsOfAFailureThatSuccessesFollow) {
  Fleet fleet(3, [](Member& me) {
    FleetTeam team(me);
    InterposedTeam heard(team);
    for (const bool asks : {true, false}) {
      testing::internal::CaptureStderr();
      {
        World world(heard, small_world());
        auto a = filled<1>(world, 1, {3 << 15});
        const Box sent = a.layout().own(0);
        const auto wants = [&sent](team::Rank rank) {
          return rank == 0 ? std::vector<Want>() : std::vector<Want>{{sent, sent.first, sent}};
        };
        Block there = world.allocate(sent.size() * sizeof(double));
        me.barrier();
        if (me.index() == 0) {
          heard.before_each_flush([](PeerId peer, Deadline) { return peer == 1 ? Outcome::link_lost : Outcome::done; });
          (void)world.begin_transfer(a.layout(), a.block(), sizeof(double), wants, there);
          // One that can wait. A wait makes copies as well, but by a channel of their own, which fails here.
          const auto unheard = team.fabric().open_channel();
          EXPECT_FALSE(world.comm().wait(*unheard, world.comm().issued(), world.deadline()).done());
          if (asks) {
            const std::string error = error_of([&] { world.about_to_change(a.block()); });
            EXPECT_NE(error.find(kBroken), std::string::npos) << error;
          }
        }
        me.barrier();
        if (me.index() != 0) (void)error_of([&] { world.expect({Outcome::link_lost, {}}, "leave"); });  // as rank 0
      }
      heard.before_each_flush({});
      const std::string log = testing::internal::GetCapturedStderr();
      if (me.index() == 0 && !asks) {
        EXPECT_NE(log.find(kBroken), std::string::npos) << log;
      }
    }
  });
  fleet.expect_success();
}

// A death ends whatever the others wait for, and the error names who died.
TEST(World, NamesWhoDied) {
  Shared<std::atomic<unsigned>> ready;
  Fleet fleet(3, [&](Member& me) {
    FleetTeam team(me);
    World world(team, small_world());
    auto a = filled<1>(world, 1, {10});
    me.barrier();
    if (me.index() == 1) ::raise(SIGKILL);
    const std::string error = error_of([&] {
      for (;;) a = cshift(a, 0, 1) / sum(a);
    });
    EXPECT_NE(error.find("rank 1 is lost"), std::string::npos) << error;
    ++*ready;  // who leaves earlier is as lost to the others as the dead
    EXPECT_TRUE(eventually([&] { return *ready >= 2; }));
  });
  EXPECT_EQ(fleet.wait(0), 0);
  EXPECT_EQ(fleet.wait(2), 0);
}

}  // namespace
}  // namespace farside::test
