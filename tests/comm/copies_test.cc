// A copy of any size: piece by piece, each with a deadline of its own.
#include "comm/copies.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "comm/carry.h"
#include "tests/support/in_process_team.h"
#include "tests/support/interposed_team.h"

namespace farside::test {
namespace {

constexpr std::uint64_t kBytes = 3 * kPieceBytes + 1000;

class Copies : public testing::Test {
 protected:
  Copies() : team_(*teams_[0]) {
    on_all_ranks(2, [this](Rank rank) {
      memory_[rank] = (rank == 0 ? static_cast<Team&>(team_) : *teams_[1]).allocate("copied", kBytes + 8);
    });
    channel_ = team_.fabric().open_channel();
    std::iota(words_.begin(), words_.end(), 7);
    team_.before_each([this](const Operation& operation) {
      since_deadline_ += operation.bytes;
      most_ = std::max(most_, since_deadline_);
    });
  }

  [[nodiscard]] Deadline soon() { return team_.fabric().in(std::chrono::seconds(60)); }
  NextDeadline counted() {
    return [this] {
      ++deadlines_;
      since_deadline_ = 0;
      return soon();
    };
  }
  [[nodiscard]] LocalSpan buffer() { return {words_.data(), kBytes}; }
  [[nodiscard]] std::vector<std::uint64_t> there() {
    std::vector<std::uint64_t> found(words_.size());
    memory_[1]->local().copy_out(0, std::as_writable_bytes(std::span(found)));
    return found;
  }

  std::vector<std::unique_ptr<InProcessTeam>> teams_ = make_teams(2);
  InterposedTeam team_;
  std::array<std::unique_ptr<SymmetricRegion>, 2> memory_;
  std::unique_ptr<Channel> channel_;
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(kBytes / 8);
  std::uint64_t deadlines_ = 0;
  std::uint64_t since_deadline_ = 0;
  std::uint64_t most_ = 0;  // bytes posted with one deadline
};

TEST_F(Copies, OfAnySizeHaveADeadlineForEachPiece) {
  const Copy put{Copy::Kind::put, {{memory_[1]->of(1).span(0, kBytes), buffer()}}, {}};
  (void)put;
  Copy copy{Copy::Kind::put, {}, SetWord{memory_[0]->of(1).word<ControlWord>(kBytes), 5}};
  // In parts, one of which is larger than a piece.
  for (std::uint64_t at = 0, length = 1000; at < kBytes; at += length, length = kPieceBytes + 8) {
    length = std::min(length, kBytes - at);
    copy.parts.push_back({memory_[0]->of(1).span(at, length), buffer().piece(at, length)});
  }
  ASSERT_TRUE(make_in_pieces(*channel_, copy, counted()).done());
  EXPECT_EQ(there(), words_);
  EXPECT_EQ(memory_[1]->local().word<ControlWord>(kBytes).load(), 5U);
  EXPECT_EQ(deadlines_, 4U + 1U) << "of the pieces and the notice";
  EXPECT_LE(most_, kPieceBytes);

  std::ranges::fill(words_, 0);
  copy.kind = Copy::Kind::get;
  copy.notice = {};
  ASSERT_TRUE(make_in_pieces(*channel_, copy, counted()).done());
  EXPECT_EQ(there(), words_);
}

TEST_F(Copies, BetweenOthersHaveADeadlineForEachPiece) {
  const RemoteSpan from = memory_[0]->of(0).span(0, kBytes);
  memory_[0]->local().copy_in(0, std::as_bytes(std::span(words_)));
  const RemoteSpan to = memory_[0]->of(1).span(0, kBytes);
  ASSERT_TRUE(carry(*channel_, {&to, 1}, from, counted()).done());
  EXPECT_EQ(there(), words_);
  EXPECT_GT(deadlines_, kBytes / kPieceBytes);
}

// A copy that was stopped half way is one that failed, and its notice is not given.
TEST_F(Copies, GiveNoNoticeOfWhatIsNotThere) {
  Copy copy{Copy::Kind::put,
            {{memory_[0]->of(1).span(0, kBytes), buffer()}},
            SetWord{memory_[0]->of(1).word<ControlWord>(kBytes), 5}};
  const auto lost_later = [this] {
    if (++deadlines_ == 3) team_.fabric().mark_lost(1);
    return soon();
  };
  const Ended ended = make_in_pieces(*channel_, copy, lost_later);
  EXPECT_EQ(ended.outcome, Outcome::peer_lost);
  EXPECT_EQ(ended.lost, 1U);
  EXPECT_EQ(memory_[1]->local().word<ControlWord>(kBytes).load(), 0U);
}

}  // namespace
}  // namespace farside::test
