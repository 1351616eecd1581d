// Which loads go on, wait, or are answered without the file system, in an imaginary time.
#include "node/load_queue.h"

#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/cache/time_limits.h"

namespace farside::test {
namespace {

using node::LoadQueue;

using testing::ElementsAre;
using testing::IsEmpty;
using Admission = LoadQueue::Admission;

class LoadQueueTest : public testing::Test {
 protected:
  static cache::BlockKey block(std::uint64_t number) { return {{1, number, 1U << 20U, 5, 6}, 0}; }
  LoadQueue::Admitted take_in(int client, std::uint64_t number) {
    node::Visit visit;
    visit.client = client;
    return queue_.take_in(visit, block(number), now_);
  }
  /// The loads of clients 0 to 7, of the blocks of the same numbers.
  std::vector<LoadQueue::Turn> fill() {
    std::vector<LoadQueue::Turn> turns;
    for (int client = 0; client < static_cast<int>(LoadQueue::kMaxLoads); ++client) {
      turns.push_back(std::move(*take_in(client, static_cast<std::uint64_t>(client)).turn));
    }
    return turns;
  }
  /// The client whose turn is next, which is over at once; -1 for none.
  int next() {
    const std::optional<LoadQueue::Turn> turn = queue_.next(now_);
    if (!turn) return -1;
    (void)queue_.end(*turn, now_);
    return turn->visit.client;
  }

  Time now_{1'000};
  LoadQueue queue_;
};

TEST_F(LoadQueueTest, LetsTheNextInWhenOneIsDone) {
  std::vector<LoadQueue::Turn> turns = fill();
  EXPECT_EQ(take_in(100, 100).admission, Admission::waiting);
  EXPECT_EQ(next(), -1);
  EXPECT_TRUE(queue_.end(turns.front(), now_));
  EXPECT_EQ(next(), 100);
  EXPECT_EQ(next(), -1);
}

TEST_F(LoadQueueTest, GivesNoTurnToWhatWaitsForALoad) {
  LoadQueue::Admitted first = take_in(1, 7);
  ASSERT_EQ(first.admission, Admission::begun);
  for (int client = 2; client < 20; ++client) EXPECT_EQ(take_in(client, 7).admission, Admission::waiting);
  EXPECT_EQ(take_in(50, 8).admission, Admission::begun);
  EXPECT_EQ(next(), -1);
  EXPECT_TRUE(queue_.end(*first.turn, now_));
  for (int client = 2; client < 20; ++client) EXPECT_EQ(next(), client);
}

// One that is put off comes back to a queue that may be full.
TEST_F(LoadQueueTest, TakesNoMoreThanItHasRoomFor) {
  std::vector<LoadQueue::Turn> turns = fill();
  for (int client = 0; client < static_cast<int>(LoadQueue::kMaxWaiting); ++client) {
    ASSERT_EQ(take_in(1000 + client, 1000).admission, Admission::waiting);
  }
  queue_.postpone(std::move(turns.front()), now_);
  EXPECT_EQ(take_in(100, 1).admission, Admission::busy);
}

TEST_F(LoadQueueTest, TellsWhatWaitsForItsTurnForLongToGoOn) {
  const std::vector<LoadQueue::Turn> turns = fill();
  now_ = now_ + std::chrono::seconds(1);
  EXPECT_EQ(take_in(100, 100).admission, Admission::waiting);
  EXPECT_EQ(take_in(101, 0).admission, Admission::waiting);  // for a load: that is worth a longer wait
  now_ = now_ + (cache::time_limits::kTurn - Duration(1));
  EXPECT_THAT(queue_.take_late(now_), IsEmpty());
  now_ = now_ + Duration(1);
  EXPECT_THAT(queue_.take_late(now_), ElementsAre(100));
  EXPECT_THAT(queue_.take_late(now_), IsEmpty());
}

TEST_F(LoadQueueTest, AnswersForALoadThatTakesTooLong) {
  LoadQueue::Admitted slow = take_in(1, 7);
  EXPECT_EQ(take_in(2, 7).admission, Admission::waiting);
  now_ = now_ + cache::time_limits::kAnswer;
  EXPECT_THAT(queue_.take_late(now_), ElementsAre(1, 2));
  EXPECT_EQ(take_in(3, 7).admission, Admission::busy);   // it is known to be slow
  EXPECT_EQ(take_in(1, 8).admission, Admission::begun);  // its client goes on
  EXPECT_FALSE(queue_.end(*slow.turn, now_));
  EXPECT_EQ(take_in(3, 7).admission, Admission::begun);
}

TEST_F(LoadQueueTest, TurnsAwayWhileNothingMoves) {
  std::vector<LoadQueue::Turn> turns = fill();
  now_ = now_ + cache::time_limits::kTurn;
  EXPECT_EQ(take_in(100, 100).admission, Admission::busy);
  EXPECT_TRUE(queue_.end(turns.front(), now_));
  EXPECT_EQ(take_in(100, 100).admission, Admission::begun);
}

TEST_F(LoadQueueTest, HoldsNoMoreThanItsBound) {
  const std::vector<LoadQueue::Turn> turns = fill();
  for (std::size_t i = 0; i < LoadQueue::kMaxWaiting; ++i) {
    ASSERT_EQ(take_in(1'000, 1'000 + i).admission, Admission::waiting);
  }
  EXPECT_EQ(take_in(100, 100).admission, Admission::busy);
}

TEST_F(LoadQueueTest, LetsOthersInWhileAnotherNodeLoads) {
  std::vector<LoadQueue::Turn> turns = fill();
  EXPECT_EQ(take_in(100, 100).admission, Admission::waiting);
  turns.front().visit.watch.word = 77;
  queue_.postpone(std::move(turns.front()), now_);
  EXPECT_EQ(next(), 100);
  const auto again = queue_.next(now_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->visit.client, 0);
  EXPECT_EQ(again->visit.watch.word, 77U);
  EXPECT_EQ(again->place->arrived, Time{1'000});
}

TEST_F(LoadQueueTest, ForgetsWhatWasAnsweredAndComesAgain) {
  LoadQueue::Admitted slow = take_in(1, 7);
  now_ = now_ + cache::time_limits::kAnswer;
  EXPECT_THAT(queue_.take_late(now_), ElementsAre(1));
  queue_.postpone(std::move(*slow.turn), now_);
  EXPECT_EQ(next(), -1);
}

TEST_F(LoadQueueTest, HasNothingToLookForOnceItIsClosed) {
  const LoadQueue::Admitted one = take_in(1, 7);
  EXPECT_TRUE(queue_.wait_while_idle());
  queue_.close();
  EXPECT_FALSE(queue_.wait_while_idle());
}

}  // namespace
}  // namespace farside::test
