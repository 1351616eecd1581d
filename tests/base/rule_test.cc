#include "base/rule.h"

#include <gtest/gtest.h>

namespace farside::test {
namespace {

TEST(Rule, CanBeBrokenOnlyInTheBuildForThat) {
  EXPECT_TRUE(Rule(true));
  if (Rule::kBreakable) {
    EXPECT_FALSE(Rule(false));
  } else {
    EXPECT_DEATH((void)Rule(false), "");
  }
}

}  // namespace
}  // namespace farside::test
