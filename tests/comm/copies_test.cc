// A copy of any size, piece by piece, each with a deadline of its own; and copies to a rank that does not answer.
#include "comm/copies.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "comm/carry.h"
#include "tests/support/in_process_team.h"
#include "tests/support/interposed_team.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

constexpr std::uint64_t kBytes = 3 * comm::kPieceBytes + 1000;

class Copies : public testing::Test {
 protected:
  Copies() : team_(*teams_[0]) {
    on_all_ranks(2, [this](team::Rank rank) {
      memory_[rank] = (rank == 0 ? static_cast<team::Team&>(team_) : *teams_[1]).allocate("copied", kBytes + 8);
    });
    channel_ = team_.fabric().open_channel();
    std::iota(words_.begin(), words_.end(), 7);
    team_.before_each([this](const Operation& operation) {
      since_deadline_ += operation.bytes;
      most_ = std::max(most_, since_deadline_);
    });
  }

  [[nodiscard]] Deadline soon() { return team_.fabric().in(std::chrono::seconds(60)); }
  comm::NextDeadline counted() {
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
  std::array<std::unique_ptr<team::SymmetricRegion>, 2> memory_;
  std::unique_ptr<Channel> channel_;
  std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(kBytes / 8);
  std::uint64_t deadlines_ = 0;
  std::uint64_t since_deadline_ = 0;
  std::uint64_t most_ = 0;  // bytes posted with one deadline
};

TEST_F(Copies, OfAnySizeHaveADeadlineForEachPiece) {
  comm::Copy copy{comm::Copy::Kind::put, {}, comm::SetWord{memory_[0]->of(1).word<ControlWord>(kBytes), 5}};
  // In parts, one of which is larger than a piece.
  for (std::uint64_t at = 0, length = 1000; at < kBytes; at += length, length = comm::kPieceBytes + 8) {
    length = std::min(length, kBytes - at);
    copy.parts.push_back({memory_[0]->of(1).span(at, length), buffer().piece(at, length)});
  }
  ASSERT_TRUE(comm::make_in_pieces(*channel_, copy, counted()).status.front().done());
  EXPECT_EQ(there(), words_);
  EXPECT_EQ(memory_[1]->local().word<ControlWord>(kBytes).load(), 5U);
  EXPECT_EQ(deadlines_, 4U) << "of the pieces";
  EXPECT_LE(most_, comm::kPieceBytes);

  std::ranges::fill(words_, 0);
  copy.kind = comm::Copy::Kind::get;
  copy.notice = {};
  ASSERT_TRUE(comm::make_in_pieces(*channel_, copy, counted()).status.front().done());
  EXPECT_EQ(there(), words_);
}

TEST_F(Copies, BetweenOthersHaveADeadlineForEachPiece) {
  const RemoteSpan from = memory_[0]->of(0).span(0, kBytes);
  memory_[0]->local().copy_in(0, std::as_bytes(std::span(words_)));
  const RemoteSpan to = memory_[0]->of(1).span(0, kBytes);
  ASSERT_TRUE(comm::carry(*channel_, {&to, 1}, from, counted()).done());
  EXPECT_EQ(there(), words_);
  EXPECT_GT(deadlines_, kBytes / comm::kPieceBytes);
}

// A copy that was stopped half way is one that failed, and its notice is not given.
TEST_F(Copies, GiveNoNoticeOfWhatIsNotThere) {
  comm::Copy copy{comm::Copy::Kind::put,
                  {{memory_[0]->of(1).span(0, kBytes), buffer()}},
                  comm::SetWord{memory_[0]->of(1).word<ControlWord>(kBytes), 5}};
  const auto lost_later = [this] {
    if (++deadlines_ == 3) team_.fabric().mark_lost(1);
    return soon();
  };
  const comm::Status status = comm::make_in_pieces(*channel_, copy, lost_later).status.front();
  EXPECT_EQ(status.outcome, Outcome::peer_lost);
  EXPECT_EQ(status.lost, 1U);
  EXPECT_EQ(memory_[1]->local().word<ControlWord>(kBytes).load(), 0U);
}

// Those to the other ranks have not had their time while that one was waited for.
TEST_F(Copies, HaveTheirTimeAfterARankThatDoesNotAnswer) {
  team_.before_each_flush([](PeerId peer, Deadline) { return peer == 0 ? Outcome::timed_out : Outcome::done; });
  std::vector<comm::Copy> copies;
  for (const team::Rank to : {0, 1}) {
    copies.push_back({comm::Copy::Kind::put, {{memory_[0]->of(to).span(0, 8), buffer().piece(0, 8)}}, {}});
  }
  const comm::Made made = comm::make_copies(*channel_, copies, counted());
  EXPECT_EQ(made.status[0].outcome, Outcome::timed_out);
  EXPECT_TRUE(made.status[1].done());
  EXPECT_EQ(made.silent, std::set<team::Rank>{0});
  EXPECT_EQ(deadlines_, 2U);
}

// A rank that did not answer a copy is given no notice either, not even of a copy to another rank: each would cost the
// others its time once more.
TEST_F(Copies, GiveNoNoticeToARankThatDidNotAnswer) {
  team_.before_each_flush([](PeerId peer, Deadline) { return peer == 0 ? Outcome::timed_out : Outcome::done; });
  const RemoteWord<ControlWord> flag = memory_[0]->of(0).word<ControlWord>(kBytes);
  const std::vector<comm::Copy> copies{
      {comm::Copy::Kind::put, {{memory_[0]->of(0).span(0, 8), buffer().piece(0, 8)}}, {}},
      {comm::Copy::Kind::put, {{memory_[0]->of(1).span(0, 8), buffer().piece(0, 8)}}, comm::SetWord{flag, 5}}};
  const comm::Made made = comm::make_copies(*channel_, copies, counted());
  EXPECT_EQ(there()[0], words_[0]) << "the copy itself is made";
  EXPECT_EQ(made.status[1].outcome, Outcome::timed_out) << "of its notice";
  EXPECT_EQ(memory_[0]->local().word<ControlWord>(kBytes).load(), 0U);
  EXPECT_EQ(deadlines_, 2U);
}

// It costs what is issued for the others one time-out, and not one for each copy to it.
TEST_F(Copies, ToARankThatDoesNotAnswerEndTogether) {
  std::atomic<bool> answers = false;
  std::atomic<unsigned> asked = 0;
  Time asked_until{};
  team_.before_each({});
  team_.before_each_flush([&](PeerId peer, Deadline deadline) {
    if (peer == 0 || answers) return Outcome::done;
    ++asked;
    asked_until = deadline.at;
    return Outcome::timed_out;
  });
  std::array<std::unique_ptr<comm::Comm>, 2> comms;
  on_all_ranks(2, [&](team::Rank rank) {
    comms[rank] = std::make_unique<comm::Comm>(rank == 0 ? static_cast<team::Team&>(team_) : *teams_[1]);
  });
  comm::Comm& comm = *comms[0];
  const auto put = [&](team::Rank to) {
    constexpr std::uint64_t kAlone = 2U << 20U;  // more than is done together with others
    return comm.put(*channel_, memory_[0]->of(to).span(0, kAlone), buffer().piece(0, kAlone));
  };
  const std::unique_ptr<Channel> waits = teams_[0]->fabric().open_channel();  // one of team_ does not
  const auto outcome_of = [&](const comm::Request& request) {
    EXPECT_TRUE(eventually([&] { return comm.finished(request); }));
    return comm.wait(*waits, request, soon()).outcome;
  };

  std::promise<void> all_issued;
  (void)comm.in_background(*channel_, [issued = all_issued.get_future().share()](Channel&, Deadline) {
    issued.wait();
    return comm::Status{};
  });
  std::array<std::vector<comm::Request>, 2> puts;
  for (int i = 0; i < 3; ++i) {
    for (const team::Rank to : {1, 0}) puts[to].push_back(put(to));
  }
  all_issued.set_value();
  for (const comm::Request& each : puts[0]) EXPECT_EQ(outcome_of(each), Outcome::done);
  for (const comm::Request& each : puts[1]) EXPECT_EQ(outcome_of(each), Outcome::timed_out);
  EXPECT_EQ(asked, 1U);

  EXPECT_EQ(outcome_of(put(1)), Outcome::timed_out) << "what is issued later is tried";
  EXPECT_EQ(asked, 2U);
  EXPECT_LT(asked_until, team_.fabric().in(std::chrono::seconds(2)).at) << "and has a second";
  answers = true;
  EXPECT_EQ(outcome_of(put(1)), Outcome::done);
}

}  // namespace
}  // namespace farside::test
