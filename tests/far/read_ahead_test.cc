// What is fetched before it is asked for.
#include "far/pager/read_ahead.h"

#include <array>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace farside::test {
namespace {

using far::PageNumber;
using far::ReadAhead;

// Which of `pages` fault, when what is fetched ahead stays.
template <class Pages>
std::size_t faults_of(ReadAhead& ahead, const Pages& pages, bool is_sequential = false) {
  std::set<std::int64_t> here;
  std::size_t faults = 0;
  for (const PageNumber page : pages) {
    if (!here.insert(page).second) continue;
    ++faults;
    const auto window = ahead.after_fault(page, is_sequential);
    for (std::uint32_t i = 1; i <= window.count; ++i) here.insert(page + window.stride * i);
  }
  return faults;
}

std::vector<PageNumber> every(std::size_t count, auto&& page_of) {
  std::vector<PageNumber> pages;
  for (std::size_t i = 0; i < count; ++i) pages.push_back(static_cast<PageNumber>(page_of(i)));
  return pages;
}

TEST(ReadAhead, FollowsStridesUpAndDown) {
  for (const int stride : {1, 3, -1, -7}) {
    ReadAhead ahead(32);
    EXPECT_LT(faults_of(ahead, every(1000, [&](std::size_t i) { return 100'000 + stride * static_cast<int>(i); })), 60U)
        << stride;
  }
}

// As through the pages of a database whose slots are a little longer than a page.
TEST(ReadAhead, FollowsAWalkThatGoesBackNowAndThen) {
  constexpr std::array<int, 5> kPlaces{0, 1, 3, 2, 4};
  for (const int way : {1, -1}) {
    ReadAhead ahead(32);
    const auto page_of = [&](std::size_t i) {
      return 100'000 + way * (static_cast<int>(i / 5 * 5) + kPlaces.at(i % 5));
    };
    EXPECT_LT(faults_of(ahead, every(1000, page_of)), 100U) << way;
  }
}

TEST(ReadAhead, FollowsManyWalksAtOnce) {
  ReadAhead ahead(32);
  EXPECT_LT(faults_of(ahead, every(14'000, [](std::size_t i) { return i % 14 * 100'000 + i / 14; })), 14U * 60);
}

TEST(ReadAhead, LeavesRandomAccessAlone) {
  ReadAhead ahead(32);
  std::uint64_t fetched = 0;
  for (std::uint64_t i = 1; i < 2000; ++i) {
    fetched += ahead.after_fault(static_cast<PageNumber>(i * 0x9e3779b97f4a7c15U >> 40U), false).count;
  }
  EXPECT_LT(fetched, 200U);
}

// What came ahead of a walk, what of that was used, and what was said to be.
struct Ahead {
  std::uint64_t fetched = 0;
  std::uint64_t used = 0;
  std::uint64_t hits = 0;
  ReadAhead::Window last;
};

Ahead walk_along(ReadAhead& ahead, const std::vector<PageNumber>& pages) {
  Ahead result;
  std::set<std::int64_t> here;
  std::set<std::int64_t> unused;
  for (const PageNumber page : pages) {
    result.used += unused.erase(page);
    if (!here.insert(page).second) continue;
    result.last = ahead.after_fault(page, false);
    result.hits += result.last.hits;
    for (std::uint32_t i = 1; i <= result.last.count; ++i) {
      const std::int64_t other = page + result.last.stride * i;
      if (!here.insert(other).second) continue;
      unused.insert(other);
      ++result.fetched;
    }
  }
  return result;
}

// Two pages of seven.
PageNumber sparse(std::size_t i) { return static_cast<PageNumber>(7 * (i / 2) + 3 * (i % 2)); }

void expect_about(std::uint64_t hits, std::uint64_t used) {
  EXPECT_GT(hits * 4, used * 3);
  EXPECT_LT(hits * 3, used * 4);
}

TEST(ReadAhead, CountsWhatWasUsedOfARegularWalk) {
  ReadAhead ahead(8);
  const Ahead walk = walk_along(ahead, every(1000, [](std::size_t i) { return i; }));
  EXPECT_GT(walk.used, 800U);
  EXPECT_LE(walk.hits, walk.used);
  EXPECT_GE(walk.hits + 8, walk.used);
}

TEST(ReadAhead, CountsWhatWasUsedOfAWalkThatLeavesPagesOut) {
  ReadAhead ahead(32);
  const Ahead walk = walk_along(ahead, every(2000, sparse));
  EXPECT_GT(walk.used, 1000U);
  EXPECT_LT(walk.used * 2, walk.fetched);
  expect_about(walk.hits, walk.used);
}

// Also where more than half of its steps are regular.
TEST(ReadAhead, CountsWhatWasUsedOfAWalkInPieces) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same every time
  PageNumber page = 0;
  const auto page_of = [&](std::size_t i) { return page += i % 3 == 0 ? 2 + random() % 5 : 1; };
  ReadAhead ahead(32);
  const Ahead walk = walk_along(ahead, every(4000, page_of));
  EXPECT_GT(walk.used, 2000U);
  expect_about(walk.hits, walk.used);
}

// Each array is walked through in order after one in which pages were left out.
TEST(ReadAhead, AWalkBecomesRegular) {
  for (const std::size_t stride : {1, 2, 3, 4}) {
    ReadAhead ahead(32);
    const std::vector<PageNumber> irregular = every(200, sparse);
    (void)walk_along(ahead, irregular);
    const auto page_of = [&](std::size_t i) { return irregular.back() + stride * (i + 1); };
    (void)walk_along(ahead, every(1000, page_of));
    const Ahead walk = walk_along(ahead, every(1000, [&](std::size_t i) { return page_of(1000 + i); }));
    EXPECT_EQ(walk.last.stride, stride);
    EXPECT_EQ(walk.last.count, 32U);
    EXPECT_GE(walk.used + 32, walk.fetched);
    EXPECT_GE(walk.hits + 64, walk.used);
  }
}

}  // namespace
}  // namespace farside::test
