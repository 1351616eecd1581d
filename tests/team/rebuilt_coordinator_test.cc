// A coordinator that is started from a copy of another one's log, on another machine, and the copy itself.
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "authority/file_store.h"
#include "base/wire.h"
#include "net/runtime_dir.h"
#include "team/decision_log.h"
#include "team/succession/log_copy.h"
#include "tests/team/coordinator_fixture.h"
#include "tests/team/stranger.h"

namespace farside::team {
namespace {

using net::FrameKind;
using test::eventually;
using test::Member;
using test::Stranger;
using testing::IsEmpty;

TeamState state_in(const std::filesystem::path& log) {
  return read_team(authority::FileStore(log).read()).team.state();
}

class RebuiltCoordinator : public testing::Test {
 protected:
  void SetUp() override {
    first_ = start(dir_.path() / "decisions");
    copying_.emplace(copy_, "file:" + meeting_.string(), secret_);
    zero_ = std::make_unique<Member>("file:" + meeting_.string(), secret_, 0);
    one_ = std::make_unique<Member>("file:" + meeting_.string(), secret_, 1);
    test::expect_exchange(*zero_, *one_);
    EXPECT_TRUE(eventually([this] { return std::filesystem::exists(copy_) && state_in(copy_).exchanges.size() == 1; }));
  }
  std::unique_ptr<Coordinator> start(const std::filesystem::path& log, bool is_copy = false,
                                     std::vector<Rank> ended = {}) {
    auto started = std::make_unique<Coordinator>(
        "127.0.0.1:0", secret_, 2, Coordinator::Admission{},
        Coordinator::Log{.store = std::make_unique<authority::FileStore>(log),
                         .terms = "terms",
                         .newer = is_copy ? std::optional(rebuilt(state_in(log))) : std::nullopt,
                         .ended = std::move(ended)},
        kMinSilence);
    std::ofstream(meeting_) << started->address() << '\n';
    return started;
  }
  /// On another machine, which has the copy; the first one is lost.
  void rebuild(std::vector<Rank> ended = {}) {
    copying_.reset();
    std::filesystem::copy_file(copy_, dir_.path() / "rebuilt");
    first_.reset();
    second_ = start(dir_.path() / "rebuilt", true, std::move(ended));
  }
  void expect_found() {
    EXPECT_TRUE(eventually([this] { return !zero_->is_without_coordinator() && !one_->is_without_coordinator(); }));
  }
  /// The answer to rank 1, which claims to have followed a coordinator of that generation.
  FrameKind claim(const Coordinator& coordinator, std::uint32_t generation, std::uint32_t epoch) {
    Stranger again(coordinator);
    net::Session session = again.shake_hands(secret_, 1, net::ClaimPurpose::keep_seat);
    const std::uint64_t team = state_in(copy_).team;
    again.send(session.seal(FrameKind::keep,
                            Encoder().number(team).number(generation).number(std::uint16_t{0}).number(epoch).take()));
    return again.receive_frame(session).kind;
  }

  net::JobDir dir_;
  net::Secret secret_ = net::Secret::create(dir_.path() / "secret");
  std::filesystem::path meeting_ = dir_.path() / "meeting";
  std::filesystem::path copy_ = dir_.path() / "decisions.copy";
  std::unique_ptr<Coordinator> first_;
  std::unique_ptr<Coordinator> second_;
  std::optional<LogCopy> copying_;
  std::unique_ptr<Member> zero_;
  std::unique_ptr<Member> one_;
};

TEST_F(RebuiltCoordinator, IsFollowedByMembersWithAllThatTheyHave) {
  rebuild();
  expect_found();
  EXPECT_THAT(zero_->losses(), IsEmpty());
  test::expect_exchange(*zero_, *one_);
  EXPECT_EQ(state_in(dir_.path() / "rebuilt").generation, 1U);
  EXPECT_TRUE(eventually([this] { return !state_in(dir_.path() / "rebuilt").awaits_all; }));
}

TEST_F(RebuiltCoordinator, TakesThoseForLostOfWhichItIsSaid) {
  one_.reset();
  rebuild({1});
  EXPECT_TRUE(eventually([this] { return zero_->losses() == std::map<Rank, Loss>{{1, Loss::died}}; }));
}

// The former one is started again, or went on where it was. Also one that is rebuilt once more.
TEST_F(RebuiltCoordinator, IsNotLeftForOneOfALowerGeneration) {
  rebuild();
  expect_found();
  EXPECT_EQ(claim(*second_, 0, 0), FrameKind::welcome);  // it has not heard of it yet
  const auto former = start(dir_.path() / "decisions");
  EXPECT_EQ(claim(*former, 1, 0), FrameKind::unknown);
  EXPECT_EQ(claim(*former, 0, 0), FrameKind::welcome);
  second_.reset();
  EXPECT_TRUE(eventually([this] { return zero_->is_without_coordinator() && one_->is_without_coordinator(); }));
  const auto third = start(dir_.path() / "rebuilt", true);
  expect_found();
  EXPECT_EQ(state_in(dir_.path() / "rebuilt").generation, 2U);
}

TEST_F(RebuiltCoordinator, IsNotFollowedByAMemberThatKnowsMore) {
  rebuild();
  expect_found();
  EXPECT_EQ(claim(*second_, 1, 1), FrameKind::unknown);
}

TEST_F(RebuiltCoordinator, CopiesHaveWhatIsDecidedSince) {
  (*zero_)->evict(1, 0);
  EXPECT_TRUE(eventually([this] { return state_in(copy_).epoch == 1; }));
  EXPECT_FALSE(read_team(authority::FileStore(copy_).read()).team.is_present(1));
}

}  // namespace
}  // namespace farside::team
