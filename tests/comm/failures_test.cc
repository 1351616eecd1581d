// No operation that failed reads as done, however many have failed.
#include "comm/failures.h"

#include <exception>
#include <stdexcept>

#include <gtest/gtest.h>

namespace farside::test {
namespace {

using comm::Failures;

constexpr std::uint64_t kFailures = 100'000;

comm::Status lost(team::Rank rank) { return comm::status_with(Outcome::peer_lost, rank); }
comm::Request only(std::uint64_t number) { return {number, number}; }

TEST(Failures, ReadAsTheyEndedEachByItself) {
  Failures failures;
  failures.add(3, lost(7));
  failures.add(4, {Outcome::timed_out, {}});
  for (const std::uint64_t done : {1, 2, 5}) EXPECT_TRUE(failures.first_of(only(done)).done()) << done;
  EXPECT_EQ(failures.first_of(only(3)).lost, 7U);
  EXPECT_EQ(failures.first_of(only(4)).outcome, Outcome::timed_out);
  EXPECT_EQ(failures.first_of({1, 9}).lost, 7U) << "not the first of several";
  EXPECT_EQ(failures.first_of({4, 9}).outcome, Outcome::timed_out);
  EXPECT_TRUE(failures.first_of({1, 2}).done());
  EXPECT_TRUE(failures.first_of({5, 9}).done());
  EXPECT_TRUE(failures.first_of({}).done());
}

// As many as one likes that follow each other are remembered exactly.
TEST(Failures, ThatFollowEachOtherTakeOnePlace) {
  Failures failures;
  for (std::uint64_t each = 0; each < kFailures; ++each) failures.add(1000 + each, lost(2));
  EXPECT_TRUE(failures.first_of({1, 999}).done());
  EXPECT_TRUE(failures.first_of({1000 + kFailures, 2 * kFailures}).done());
  for (std::uint64_t each = 0; each < kFailures; ++each) EXPECT_EQ(failures.first_of(only(1000 + each)).lost, 2U);
}

// With a success between any two of them, all still read as failed, and what is new reads exactly.
TEST(Failures, NeverReadAsDoneHoweverMany) {
  Failures failures;
  for (std::uint64_t each = 0; each < kFailures; ++each) failures.add(2 * each + 1, lost(each % 5));
  for (std::uint64_t each = 0; each < kFailures; ++each) {
    ASSERT_FALSE(failures.first_of(only(2 * each + 1)).done()) << each;
    if (each + Failures::kMaxRuns <= kFailures) continue;
    ASSERT_EQ(failures.first_of(only(2 * each + 1)).lost, each % 5) << each;
    ASSERT_TRUE(failures.first_of(only(2 * each + 2)).done()) << each;
  }
  EXPECT_EQ(failures.first_of({1, 2 * kFailures}).lost, 0U) << "not the first of all";
}

// An exception is a failure like others: thrown to each who asks for it, and never done.
TEST(Failures, ThrowWhatWasThrown) {
  Failures failures;
  failures.add(1, lost(7));
  failures.add_thrown(2, std::make_exception_ptr(std::runtime_error("first")));
  failures.add_thrown(3, std::make_exception_ptr(std::runtime_error("second")));
  failures.add(5, lost(7));
  EXPECT_EQ(failures.first_of({1, 9}).lost, 7U);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THROW((void)failures.first_of({2, 9}), std::runtime_error);
    EXPECT_THROW((void)failures.first_of(only(3)), std::runtime_error);
  }
  EXPECT_TRUE(failures.first_of(only(4)).done());
  EXPECT_EQ(failures.first_of({4, 5}).lost, 7U);
}

}  // namespace
}  // namespace farside::test
