#include "cache/replacement_lists.h"

#include <map>

#include <gtest/gtest.h>

namespace farside::cache {
namespace {

class Board final : public UseBoard {
 public:
  [[nodiscard]] Time last_used(std::uint64_t slot) const override {
    const auto found = used.find(slot);
    return found == used.end() ? Time{} : found->second;
  }
  std::map<std::uint64_t, Time> used;
};

TEST(ReplacementLists, TakesTheLeastRecentlyUsed) {
  Board board;
  ReplacementLists lists(4, 0.5);
  lists.add(0, {10});
  lists.add(1, {20});
  lists.add(2, {30});
  board.used[0] = {25};  // used by a program that did not report it

  EXPECT_EQ(lists.take_oldest(board), 1u);
  EXPECT_EQ(lists.take_oldest(board), 0u);
  EXPECT_EQ(lists.take_oldest(board), 2u);
  EXPECT_EQ(lists.take_oldest(board), std::nullopt);
}

TEST(ReplacementLists, DropsTheOldestSingletWhenTheFifoIsOverfull) {
  Board board;
  ReplacementLists lists(4, 0.5);
  lists.keep_singlet(0, {10});
  lists.keep_singlet(1, {11});
  EXPECT_EQ(lists.take_overflow(board), std::nullopt);
  lists.keep_singlet(2, {12});
  EXPECT_EQ(lists.take_overflow(board), 0u);
  EXPECT_EQ(lists.singlets(), 2u);
}

// A hit in the FIFO brings the block back to the general list.
TEST(ReplacementLists, SparesASingletThatWasUsed) {
  Board board;
  ReplacementLists lists(4, 0.25);
  lists.keep_singlet(0, {10});
  lists.keep_singlet(1, {11});
  board.used[0] = {15};
  EXPECT_EQ(lists.take_overflow(board), std::nullopt);
  EXPECT_EQ(lists.singlets(), 1u);
  EXPECT_EQ(lists.take_oldest(board), 0u);
}

TEST(ReplacementLists, KeepsNoSingletAtRatioZero) {
  Board board;
  ReplacementLists lists(4, 0);
  lists.keep_singlet(3, {10});
  EXPECT_EQ(lists.take_overflow(board), 3u);
}

TEST(ReplacementLists, GivesASingletWhenThereIsNothingElse) {
  Board board;
  ReplacementLists lists(2, 1);
  lists.keep_singlet(0, {10});
  lists.keep_singlet(1, {11});
  EXPECT_EQ(lists.take_overflow(board), std::nullopt);
  EXPECT_EQ(lists.take_oldest(board), std::nullopt);
  EXPECT_EQ(lists.take_singlet(), 0u);
}

}  // namespace
}  // namespace farside::cache
