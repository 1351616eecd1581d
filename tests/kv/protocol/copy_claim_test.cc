// Which of two copies on disks goes on.
#include "kv/protocol/copy_claim.h"

#include <vector>

#include <gtest/gtest.h>

namespace farside::kv {
namespace {

constexpr CopyClaim kNone{};
constexpr CopyClaim kBegun{CopyStanding::begun, 0};
constexpr CopyClaim kFormer{CopyStanding::former, 9};
constexpr CopyClaim standby(std::uint64_t epoch) { return {CopyStanding::standby, epoch}; }
constexpr CopyClaim primary(std::uint64_t epoch) { return {CopyStanding::primary, epoch}; }
constexpr CopyClaim alone(std::uint64_t epoch) { return {CopyStanding::alone, epoch}; }

constexpr Successor mirrored(Successor successor) {
  switch (successor) {
    case Successor::first_seat: return Successor::second_seat;
    case Successor::second_seat: return Successor::first_seat;
    case Successor::neither: return Successor::neither;
  }
  return Successor::neither;
}

struct Case {
  CopyClaim first;
  CopyClaim second;
  Successor successor;
};

TEST(KvCopyClaim, ThePrimarysOfTheLatestEpochGoesOn) {
  const std::vector<Case> cases{
      {primary(1), standby(1), Successor::first_seat}, {alone(1), standby(1), Successor::first_seat},
      {primary(1), kBegun, Successor::first_seat},     {alone(0), kBegun, Successor::first_seat},
      {primary(1), alone(2), Successor::second_seat},  {alone(3), primary(2), Successor::first_seat},
      {alone(2), standby(1), Successor::first_seat},   {alone(1), kNone, Successor::first_seat},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(successor_of(each.first, each.second, false), each.successor)
        << to_string(each.first) << " and " << to_string(each.second);
    EXPECT_EQ(successor_of(each.second, each.first, false), mirrored(each.successor))
        << to_string(each.second) << " and " << to_string(each.first);
  }
}

// Where the copy is missing that may have more, or what there is cannot be.
TEST(KvCopyClaim, NeitherGoesOnWhereAnotherMayHaveHadMore) {
  const std::vector<Case> cases{
      {primary(1), kNone, Successor::neither},       // whose disk was replaced, and which may have been promoted
      {standby(1), kNone, Successor::neither},       // whose primary may have gone on alone
      {standby(2), primary(1), Successor::neither},  // an old disk that came back
      {standby(2), standby(2), Successor::neither}, {primary(2), primary(2), Successor::neither},
      {alone(2), primary(2), Successor::neither},   {kBegun, kNone, Successor::neither},
      {kBegun, kBegun, Successor::neither},         {standby(1), kBegun, Successor::neither},
  };
  for (const Case& each : cases) {
    for (const bool is_new : {false, true}) {
      EXPECT_EQ(successor_of(each.first, each.second, is_new), Successor::neither)
          << to_string(each.first) << " and " << to_string(each.second);
      EXPECT_EQ(successor_of(each.second, each.first, is_new), Successor::neither)
          << to_string(each.second) << " and " << to_string(each.first);
    }
  }
}

TEST(KvCopyClaim, TheOneThatWasPreferredLastGoesOn) {
  CopyClaim first = preferred(standby(5), 1000);
  first.epoch += 7;  // it has served since, and has died as often
  EXPECT_EQ(successor_of(first, preferred(primary(5), 2000), false), Successor::second_seat);
}

TEST(KvCopyClaim, NeitherGoesOnOfTwoStores) {
  CopyClaim one = alone(2);
  CopyClaim other = standby(1);
  one.store = 5;
  EXPECT_EQ(successor_of(one, other, false), Successor::first_seat);  // the other was never told
  other.store = 5;
  EXPECT_EQ(successor_of(one, other, false), Successor::first_seat);
  other.store = 6;
  EXPECT_EQ(successor_of(one, other, false), Successor::neither);
}

TEST(KvCopyClaim, OfANewStoreTheFirstSeatBegins) {
  EXPECT_EQ(successor_of(kNone, kNone, true), Successor::first_seat);
  EXPECT_EQ(successor_of(kNone, kNone, false), Successor::neither);
}

TEST(KvCopyClaim, ThePreferredOneGoesOnWhateverTheOtherClaims) {
  for (const CopyClaim& other : {kNone, kBegun, kFormer, standby(9), primary(9), alone(9)}) {
    EXPECT_EQ(successor_of(other, preferred(standby(1), 0), false), Successor::second_seat) << to_string(other);
  }
}

}  // namespace
}  // namespace farside::kv
