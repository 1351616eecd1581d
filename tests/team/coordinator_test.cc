// The coordinator and the members of a team.
#include "team/coordinator.h"

#include <future>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "base/wire.h"
#include "net/runtime_dir.h"
#include "team/coordinator_client.h"
#include "team/liveness.h"
#include "team/member_card.h"
#include "tests/support/shared.h"
#include "tests/team/coordinator_fixture.h"
#include "tests/team/stranger.h"

namespace farside::team {
namespace {

using test::CoordinatorTest;
using test::eventually;
using test::Member;
using test::soon;
using test::Stranger;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(CoordinatorTest, GathersWhatEveryRankContributes) {
  Member zero(coordinator_, secret_, 0);
  Member one(coordinator_, secret_, 1);
  EXPECT_EQ(zero->size(), 2u);
  for (int round = 0; round < 3; ++round) expect_exchange(zero, one);
}

TEST_F(CoordinatorTest, GivesARankToOneProcessAtATime) {
  const Member zero(coordinator_, secret_, 0);
  for (const auto& [rank, reason] : std::map<Rank, std::string>{{0, "rank 0 is taken"}, {2, "rank 2 does not exist"}}) {
    try {
      const Member second(coordinator_, secret_, rank);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
  }
}

// The other members have seen nothing of it, and the seat is free for one that fits.
TEST_F(CoordinatorTest, RefusesAMemberOfAnotherVersionAlone) {
  const auto card = [](const std::string& version, const std::string& terms) {
    MemberCard made = MemberCard::of_this_process(0);
    made.version = version;
    made.terms = terms;
    return made;
  };
  const Coordinator coordinator(dir_.path() / "choosy", secret_, 2, MemberCard::admission(card("1.0", "--nodes=2")));
  Member zero(coordinator, secret_, 0);
  const std::string fits = card("1.0", "--nodes=2").encode();
  std::vector<std::string> gathered;
  std::thread other([&] { gathered = zero->exchange("try", fits, soon()); });
  for (const auto& [misfit, reason] : std::map<std::string, std::string>{
           {card("2.0", "--nodes=2").encode(), "rank 1: it uses farside 2.0 and the others 1.0"},
           {card("1.0", "--nodes=3").encode(), "rank 1: it was started with --nodes=3 and the others with --nodes=2"},
           {"no card", "it is of protocol"}}) {
    Member refused(coordinator, secret_, 1);
    try {
      (void)refused->exchange("try", misfit, soon());
      ADD_FAILURE() << "it was admitted";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
    EXPECT_TRUE(eventually([&] { return refused.abandoned(); }));
  }
  Member one(coordinator, secret_, 1);
  EXPECT_THAT(one->exchange("try", fits, soon()), ElementsAre(fits, fits));
  other.join();
  EXPECT_THAT(gathered, ElementsAre(fits, fits));
  EXPECT_THAT(zero.losses(), testing::IsEmpty());
}

// While the team forms, a rank may start again, as a new incarnation.
TEST_F(CoordinatorTest, CountsIncarnations) {
  for (std::uint16_t incarnation = 0; incarnation < 3; ++incarnation) {
    const std::unique_ptr<Member> member = take_free_seat(0);
    ASSERT_NE(member, nullptr);
    EXPECT_EQ((*member)->incarnation(), incarnation);
  }
}

TEST_F(CoordinatorTest, TellsOfADeath) {
  Member zero(coordinator_, secret_, 0);
  {
    Member one(coordinator_, secret_, 1);
    expect_exchange(zero, one);
  }
  ASSERT_TRUE(eventually([&] { return zero.losses() == std::map<Rank, Loss>{{1, Loss::died}}; }));
  EXPECT_THROW((void)zero->exchange("try", "zero", soon()), Error);  // at once: no member waits for a dead one
}

// A member that waits for a rank learns which rank it waits for.
TEST_F(CoordinatorTest, NamesTheRankThatDidNotCome) {
  Member zero(coordinator_, secret_, 0);
  try {
    (void)zero->exchange("try", "zero", net::SetupClock::now() + std::chrono::milliseconds(100));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 did not take part in time"));
  }
}

// An exchange that a member has given up may complete nevertheless. It is not what the member's next one returns.
TEST_F(CoordinatorTest, ReturnsNoExchangeThatWasGivenUp) {
  std::promise<void> one_has_contributed;
  const auto note_one = [&one_has_contributed](Rank rank, const std::string& /*blob*/) {
    if (rank == 1) one_has_contributed.set_value();
  };
  const Coordinator coordinator(dir_.path() / "late", secret_, 2, note_one);
  Member zero(coordinator, secret_, 0);
  Member one(coordinator, secret_, 1);
  zero.loop().post([has_come = one_has_contributed.get_future().share()] { has_come.wait_until(soon()); });
  EXPECT_THROW((void)zero->exchange("try", "given up", net::SetupClock::now() - std::chrono::hours(1)), Error);
  EXPECT_THAT(one->exchange("try", "one", soon()), ElementsAre("given up", "one"));
  one->leave();
  ASSERT_TRUE(eventually([&] { return zero.losses().contains(1); })) << "of which it hears after the exchange";
  EXPECT_THROW((void)zero->exchange("try", "the next", soon()), Error);
}

// No member waits for a process that has ended: neither one that comes later, nor one that waits already.
TEST_F(CoordinatorTest, NamesTheRankThatEndedInsteadOfJoining) {
  for (const bool ended_before : {true, false}) {
    Coordinator coordinator(dir_.path() / (ended_before ? "before" : "after"), secret_, 2);
    if (ended_before) coordinator.miss(1, "exited with code 0");
    Member zero(coordinator, secret_, 0);
    std::thread waiting([&] {
      try {
        (void)zero->exchange("try", "zero", net::SetupClock::now() + std::chrono::hours(1));
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 1 exited with code 0 and never joined"));
      }
    });
    if (!ended_before) coordinator.miss(1, "exited with code 0");
    waiting.join();
  }
}

TEST_F(CoordinatorTest, TellsWhoLeftAndWhoWasEvicted) {
  Member zero(coordinator_, secret_, 0);
  Member one(coordinator_, secret_, 1);
  expect_exchange(zero, one);
  zero->evict(1, 0);
  ASSERT_TRUE(eventually([&] { return zero.losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
  ASSERT_TRUE(eventually([&] { return one.losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
}

// Between hosts no process sees another one end, so a member that falls silent is evicted.
TEST_F(CoordinatorTest, EvictsWhoFallsSilentOnAnotherHost) {
  const Coordinator coordinator("127.0.0.1:0", secret_, 2, {}, {}, kMinSilence);
  Member zero(coordinator, secret_, 0);
  Stranger one(coordinator);
  net::Session session = one.shake_hands(secret_, 1);
  const std::string first = Encoder().number(std::uint64_t{0}).number(std::uint32_t{20'000}).text("one").take();
  one.send(session.seal(net::FrameKind::contribute, first));
  EXPECT_THAT(zero->exchange("try", "zero", soon()), ElementsAre("zero", "one"));
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return zero.losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
  EXPECT_GE(std::chrono::steady_clock::now() - began, kMinSilence - kBeatInterval);
  EXPECT_FALSE(zero.abandoned());  // its own beats are heard
}

// The members of all hosts have the coordinator's: they cannot disagree.
TEST_F(CoordinatorTest, ChoosesTheSilenceTimeOfAllMembers) {
  const Coordinator coordinator("127.0.0.1:0", secret_, 2, {}, {}, std::chrono::milliseconds(7'200));
  const Member zero(coordinator, secret_, 0);
  const Member one(coordinator, secret_, 1);
  for (const Member* member : {&zero, &one}) EXPECT_EQ((*member)->longest_silence(), std::chrono::milliseconds(8'000));
  const Member here(coordinator_, secret_, 0);  // on one host the kernel reports deaths
  EXPECT_EQ(here->longest_silence(), std::chrono::milliseconds(0));
}

TEST(Coordinator, IsMissedWhenItGoes) {
  const net::JobDir dir;
  const net::Secret secret = net::Secret::create(dir.path() / "secret");
  auto coordinator = std::make_unique<Coordinator>(dir.path() / "coordinator", secret, 1);
  const Member zero(*coordinator, secret, 0);
  coordinator.reset();
  EXPECT_TRUE(eventually([&] { return zero.abandoned(); }));
}

}  // namespace
}  // namespace farside::team
