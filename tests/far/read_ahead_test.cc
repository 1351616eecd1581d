// What is fetched before it is asked for.
#include "far/pager/read_ahead.h"

#include <array>
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

// A hit is counted when the fault after a window shows that all of the window was used.
TEST(ReadAhead, CountsWhatWasUsed) {
  ReadAhead ahead(8);
  std::uint64_t hits = 0;
  std::uint64_t fetched = 0;
  for (PageNumber page = 0; page < 1000;) {
    const auto window = ahead.after_fault(page, true);
    hits += window.hits;
    fetched += window.count;
    page += window.count + 1;
  }
  EXPECT_GE(hits + 8, fetched);
  EXPECT_GT(hits, 800U);
}

}  // namespace
}  // namespace farside::test
