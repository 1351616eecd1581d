// The coordinator and a rank that comes back: what its new process repeats, and what the others notice of it.
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/team/coordinator_fixture.h"

namespace farside::team {
namespace {

using test::CoordinatorTest;
using test::eventually;
using test::Member;
using test::soon;
using testing::ElementsAre;

/// Ranks 0 and 1 have exchanged twice when rank 1 is lost.
class Succession : public CoordinatorTest {
 protected:
  void SetUp() override {
    Member one(coordinator_, secret_, 1);
    for (int round = 0; round < 2; ++round) expect_exchange(zero_, one);
  }
  void wait_for_loss() {
    ASSERT_TRUE(eventually([&] { return zero_.losses().contains(1); }));
  }

  Member zero_{coordinator_, secret_, 0};
};

// It learns what the others gave to the exchanges that it missed, they what it gives, and then all go on together.
TEST_F(Succession, ASuccessorRepeatsWhatIsCompleteAndIsBack) {
  wait_for_loss();
  Member successor(coordinator_, secret_, 1);
  EXPECT_EQ(successor->incarnation(), 1);
  EXPECT_EQ(successor->standing().exchanges, 2u);
  EXPECT_THAT(successor->standing().lost, ElementsAre(1));
  EXPECT_THAT(successor->exchange("try", "first", soon()), ElementsAre("zero", "first"));
  EXPECT_THAT(zero_.returns(), testing::IsEmpty());
  EXPECT_THAT(successor->exchange("try", "second", soon()), ElementsAre("zero", "second"));
  ASSERT_TRUE(eventually([&] { return zero_.returns().contains(1); }));
  EXPECT_THAT(zero_.returns().at(1), ElementsAre("first", "second"));
  expect_exchange(zero_, successor);
}

// A successor that cannot work with the others finds out while it repeats, and goes: no other member has heard of it.
TEST_F(Succession, ASuccessorThatGivesUpDisturbsNoMember) {
  wait_for_loss();
  {
    Member successor(coordinator_, secret_, 1);
    (void)successor->exchange("try", "first", soon());
  }
  const std::unique_ptr<Member> next = take_free_seat(1);
  ASSERT_NE(next, nullptr);
  EXPECT_THAT(zero_.returns(), testing::IsEmpty());
  EXPECT_EQ((*next)->incarnation(), 2);
  for (int round = 0; round < 2; ++round) (void)(*next)->exchange("try", "again", soon());
  ASSERT_TRUE(eventually([&] { return zero_.returns().contains(1); }));
  expect_exchange(zero_, *next);
}

// An eviction names the incarnation that its caller observed. One that crosses the successor's return unseats neither a
// successor that repeats the exchanges nor one that is back.
TEST_F(Succession, AnEvictionOfThePredecessorIsNoneOfTheSuccessor) {
  wait_for_loss();
  Member successor(coordinator_, secret_, 1);
  (void)successor->exchange("try", "first", soon());
  zero_->evict(1, 0);
  (void)successor->exchange("try", "second", soon());
  ASSERT_TRUE(eventually([&] { return zero_.returns().contains(1); }));
  zero_->evict(1, 0);
  expect_exchange(zero_, successor);
  EXPECT_THAT(successor.losses(), testing::IsEmpty());

  zero_->evict(1, 1);
  EXPECT_TRUE(eventually([&] { return successor.losses().contains(1); }));
}

// What a rank gave before a loss does not meet what the successor gives after it.
TEST_F(Succession, AnExchangeEndsWithItsEpoch) {
  wait_for_loss();
  Member successor(coordinator_, secret_, 1);
  for (int round = 0; round < 2; ++round) (void)successor->exchange("try", "again", soon());
  ASSERT_TRUE(eventually([&] { return zero_.returns().contains(1); }));
  std::thread waiting([&] { EXPECT_THROW((void)zero_->exchange("try", "too early", soon()), Error); });
  successor->leave();
  waiting.join();

  const std::unique_ptr<Member> last = take_free_seat(1);
  ASSERT_NE(last, nullptr);
  for (int round = 0; round < 2; ++round) (void)(*last)->exchange("try", "again", soon());
  ASSERT_TRUE(eventually([&] { return !zero_.losses().contains(1); }));
  expect_exchange(zero_, *last);
}

// When all are lost there is nothing to come back to: the members that come then form a new team.
TEST_F(CoordinatorTest, BeginsAnewWhenNoMemberIsLeft) {
  for (std::uint16_t life = 0; life < 3; ++life) {
    std::unique_ptr<Member> zero;
    std::unique_ptr<Member> one;
    ASSERT_TRUE(eventually([&] {
      try {
        if (!zero) zero = std::make_unique<Member>(coordinator_, secret_, 0);
        if (!one) one = std::make_unique<Member>(coordinator_, secret_, 1);
      } catch (const Error&) {
      }
      return zero && one && (*zero)->standing().exchanges == 0 && (*one)->standing().exchanges == 0;
    }));
    expect_exchange(*zero, *one);
  }
}

}  // namespace
}  // namespace farside::team
