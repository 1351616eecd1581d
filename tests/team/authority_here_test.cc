// A coordinator of one host with a log: its members go on without it, and the next one goes on with them. There no
// silence means a death: the process that watches the members reports it.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "authority/file_store.h"
#include "base/wire.h"
#include "net/runtime_dir.h"
#include "team/coordinator.h"
#include "team/decision_log.h"
#include "team/liveness.h"
#include "team/membership.h"
#include "tests/team/coordinator_fixture.h"
#include "tests/team/stranger.h"

namespace farside::team {
namespace {

using net::ClaimPurpose;
using net::FrameKind;
using test::eventually;
using test::Member;
using test::Stranger;
using testing::IsEmpty;

class AuthorityHere : public testing::Test {
 protected:
  void SetUp() override {
    start();
    zero_ = std::make_unique<Member>(*coordinator_, secret_, 0);
    one_ = std::make_unique<Member>(*coordinator_, secret_, 1);
    expect_exchange(*zero_, *one_);
  }
  void start() {
    std::filesystem::remove(dir_.path() / "coordinator");
    coordinator_ = std::make_unique<Coordinator>(
        dir_.path() / "coordinator", secret_, 2, Coordinator::Admission{},
        Coordinator::Log{.store = std::make_unique<authority::FileStore>(log_), .terms = "terms"});
  }
  /// As if it were killed.
  void lose() {
    coordinator_.reset();
    EXPECT_TRUE(eventually(
        [this] { return (!zero_ || zero_->is_without_coordinator()) && (!one_ || one_->is_without_coordinator()); }));
  }
  void expect_found() {
    EXPECT_TRUE(eventually(
        [this] { return (!zero_ || !zero_->is_without_coordinator()) && (!one_ || !one_->is_without_coordinator()); }));
  }
  /// As a member that joins learns it.
  [[nodiscard]] std::uint64_t team_in_log() const {
    Membership team(2);
    team.apply(TeamState{.seats = std::vector<SeatState>(2), .silent_beats = silent_beats(kMinSilence)});
    const std::filesystem::path copy = dir_.path() / "copy";
    std::filesystem::copy_file(log_, copy, std::filesystem::copy_options::overwrite_existing);
    const DecisionLog log(std::make_unique<authority::FileStore>(copy), "terms", team);
    return team.state().team;
  }
  void expect_loss_of_one(Loss loss) {
    EXPECT_TRUE(eventually([&] { return zero_->losses() == std::map<Rank, Loss>{{1, loss}}; }));
    EXPECT_FALSE(zero_->abandoned());
  }

  net::JobDir dir_;
  std::filesystem::path log_ = dir_.path() / "decisions";
  net::Secret secret_ = net::Secret::create(dir_.path() / "secret");
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Member> zero_;
  std::unique_ptr<Member> one_;
};

TEST_F(AuthorityHere, GoesOnWithTheTeamOfTheOneBefore) {
  for (int restart = 0; restart < 2; ++restart) {
    lose();
    start();
    expect_found();
    expect_exchange(*zero_, *one_);
  }
  EXPECT_THAT(zero_->losses(), IsEmpty());
  one_.reset();  // its connection closes, which says at once that it has ended
  expect_loss_of_one(Loss::died);
}

// A process that died meanwhile, or dies before it asks for its seat.
TEST_F(AuthorityHere, AwaitsAProcessUntilItsDeathIsReported) {
  lose();
  one_.reset();
  start();
  expect_found();
  Stranger successor(*coordinator_);
  net::Session session = successor.shake_hands(secret_, 1);  // a process that was started too early
  EXPECT_THAT(zero_->losses(), IsEmpty());
  coordinator_->report_dead(1);
  expect_loss_of_one(Loss::died);
  const net::Frame welcome = successor.receive_frame(session);
  ASSERT_EQ(welcome.kind, FrameKind::welcome);
  Decoder fields(welcome.fields, "a welcome");
  (void)fields.number<std::uint64_t>();
  (void)fields.number<std::uint32_t>();
  (void)fields.number<Rank>();
  EXPECT_EQ(fields.number<std::uint16_t>(), 1U);
}

// The claim by which it kept its seat may be one that it had given up: the end of that connection says nothing.
TEST_F(AuthorityHere, TakesTheEndOfAClaimThatWasGivenUpForNoDeath) {
  lose();
  one_.reset();
  start();
  expect_found();
  const auto claim = [&] {
    Stranger claims(*coordinator_);
    net::Session session = claims.shake_hands(secret_, 1, ClaimPurpose::keep_seat);
    claims.send(session.seal(FrameKind::keep,
                             Encoder().number(team_in_log()).number(0U).number(std::uint16_t{0}).number(0U).take()));
    EXPECT_EQ(claims.receive_frame(session).kind, FrameKind::welcome);
  };
  claim();
  claim();
  EXPECT_THAT(zero_->losses(), IsEmpty());
  coordinator_->report_dead(1);
  expect_loss_of_one(Loss::died);
}

// Nothing that only such a file could tell is needed as long as it lives.
TEST_F(AuthorityHere, GoesOnWithoutALogThatCannotBeWritten) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  one_.reset();
  expect_loss_of_one(Loss::died);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(std::filesystem::exists(log_)) << "a coordinator would go on with a team that is older than its members";
}

}  // namespace
}  // namespace farside::team
