// Who has which addresses of the arena, against a map that has one entry for each page.
#include "far_preload/ranges.h"

#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace farside::far_preload {
namespace {

constexpr std::uint64_t kBegin = 64 * kPageBytes;
constexpr std::uint64_t kPages = 64;
constexpr std::uint64_t kEnd = kBegin + kPages * kPageBytes;

class RangesTest : public testing::Test {
 protected:
  [[nodiscard]] bool set(std::uint64_t first, std::uint64_t last, Use use) {
    return ranges_.set(kBegin + first * kPageBytes, kBegin + last * kPageBytes, use);
  }

  std::array<std::uint64_t, 2 * kPages> table_{};
  Ranges ranges_{table_, kBegin, kEnd};
};

TEST_F(RangesTest, IsFreeInTheBeginning) {
  const Ranges::Part all = ranges_.part_at(kBegin);
  EXPECT_EQ(all.begin, kBegin);
  EXPECT_EQ(all.end, kEnd);
  EXPECT_EQ(all.use, Use::free);
}

// Neighbours of the same use are one part, however they came about.
TEST_F(RangesTest, AgreesWithAnEntryForEachPage) {
  std::mt19937 random(1);
  std::vector<Use> expected(kPages, Use::free);
  for (int step = 0; step < 20000; ++step) {
    const std::uint64_t first = random() % kPages;
    const std::uint64_t last = first + 1 + random() % (kPages - first);
    const auto use = static_cast<Use>(random() % 4);
    ASSERT_TRUE(set(first, last, use));
    std::fill(expected.begin() + static_cast<long>(first), expected.begin() + static_cast<long>(last), use);

    std::uint64_t next = kBegin;
    ranges_.for_each(kBegin, kEnd, [&](const Ranges::Part& part) {
      ASSERT_EQ(part.begin, next);
      next = part.end;
      for (std::uint64_t at = part.begin; at < part.end; at += kPageBytes) {
        ASSERT_EQ(part.use, expected[(at - kBegin) / kPageBytes]);
      }
      if (part.end < kEnd) {
        ASSERT_NE(ranges_.part_at(part.end).use, part.use);
      }
    });
    ASSERT_EQ(next, kEnd);
  }
}

TEST_F(RangesTest, FindsTheLowestPlaceThatIsLargeEnough) {
  ASSERT_TRUE(set(0, 3, Use::used));
  ASSERT_TRUE(set(5, 10, Use::foreign));
  ASSERT_TRUE(set(20, 64, Use::freed));
  EXPECT_EQ(ranges_.find_free(2 * kPageBytes, kPageBytes), kBegin + 3 * kPageBytes);
  EXPECT_EQ(ranges_.find_free(3 * kPageBytes, kPageBytes), kBegin + 10 * kPageBytes);
  EXPECT_EQ(ranges_.find_free(kPageBytes, 16 * kPageBytes), kBegin + 16 * kPageBytes);
  EXPECT_EQ(ranges_.find_free(11 * kPageBytes, kPageBytes), std::nullopt);
}

TEST_F(RangesTest, VisitsPartsCutToWhatIsAsked) {
  ASSERT_TRUE(set(4, 8, Use::used));
  std::vector<std::uint64_t> pages;
  ranges_.for_each(kBegin + 6 * kPageBytes, kBegin + 9 * kPageBytes, [&](const Ranges::Part& part) {
    pages.push_back((part.end - part.begin) / kPageBytes);
    ASSERT_TRUE(ranges_.set(part.begin, part.end, Use::freed));
  });
  EXPECT_EQ(pages, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(ranges_.part_at(kBegin + 8 * kPageBytes).begin, kBegin + 6 * kPageBytes);
}

TEST_F(RangesTest, ChangesNothingWhenTheTableIsFull) {
  std::array<std::uint64_t, 3> small{};
  Ranges ranges(small, kBegin, kEnd);
  ASSERT_TRUE(ranges.set(kBegin + kPageBytes, kBegin + 2 * kPageBytes, Use::used));
  EXPECT_FALSE(ranges.set(kBegin + 5 * kPageBytes, kBegin + 6 * kPageBytes, Use::used));
  EXPECT_EQ(ranges.part_at(kBegin + 5 * kPageBytes).end, kEnd);
  EXPECT_TRUE(ranges.set(kBegin + 2 * kPageBytes, kBegin + 3 * kPageBytes, Use::used));  // joins what is there
}

}  // namespace
}  // namespace farside::far_preload
