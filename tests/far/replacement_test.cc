// Which pages are kept, without the pages.
#include "far/pager/replacement.h"

#include <gtest/gtest.h>

namespace farside::far {
namespace {

constexpr std::uint64_t kBudget = 160;

PageWord come_back_after(std::uint64_t arrivals) {
  Replacement replacement(kBudget);
  const PageWord left =
      replacement.leaving(replacement.arriving(PageWord().with(PageState::clean))).with(PageState::far);
  for (std::uint64_t i = 0; i < arrivals; ++i) (void)replacement.arriving(PageWord());
  return replacement.arriving(left);
}

TEST(Replacement, WhatComesBackSoonIsKept) { EXPECT_TRUE(come_back_after(kBudget / 2).main()); }

// However long it was away.
TEST(Replacement, WhatComesBackLateIsOnProbation) {
  for (const std::uint64_t budgets : {2, 16, 17, 32, 1000, 4000}) {
    EXPECT_FALSE(come_back_after(budgets * kBudget + kBudget / 4).main()) << budgets;
  }
}

}  // namespace
}  // namespace farside::far
