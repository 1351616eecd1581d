// What the code relies on ends the process when it does not hold, and says so.
#include "base/assert.h"

#include <gtest/gtest.h>

namespace farside {
namespace {

TEST(AnAssertion, LetsWhatHoldsGoOn) { assert_that(true, "one is one"); }

TEST(AnAssertionDeathTest, EndsTheProcessAndNamesThePlace) {
  EXPECT_DEATH(assert_that(false, "one is two"), "an assertion failed: one is two .*assert_test.cc:12");
}

}  // namespace
}  // namespace farside
