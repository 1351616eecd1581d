// A coordinator that hangs, is killed and started again, loses a connection, or cannot write its log: no member ends
// for it, and none is taken for another.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
using test::soon;
using test::Stranger;
using testing::ElementsAre;
using testing::IsEmpty;

/// A coordinator of two ranks in a process of its own. It is forked before the test has threads, and begins when told.
class CoordinatorProcess {
 public:
  CoordinatorProcess(const net::Secret& secret, const std::filesystem::path& log) {
    int to_child[2];
    int to_parent[2];
    if (::pipe(to_child) != 0 || ::pipe(to_parent) != 0) throw errno_error("make", "a pipe");
    pid_ = ::fork();
    orders_ = Fd(to_child[pid_ == 0 ? 0 : 1]);
    answers_ = Fd(to_parent[pid_ == 0 ? 1 : 0]);
    ::close(to_child[pid_ == 0 ? 1 : 0]);
    ::close(to_parent[pid_ == 0 ? 0 : 1]);
    if (pid_ == 0) serve(secret, log);
  }
  ~CoordinatorProcess() { kill(); }
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;

  /// Returns where it listens.
  std::string start(const std::string& address, std::chrono::milliseconds silence = kMinSilence) {
    write_line(orders_, address);
    write_line(orders_, std::to_string(silence.count()));
    return read_line(answers_);
  }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    if (pid_ == 0) return;
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// No file that it writes grows any more.
  void fill_disk() const {
    constexpr rlimit kNothing{0, 0};
    ::prlimit(pid_, RLIMIT_FSIZE, &kNothing, nullptr);
  }

 private:
  static void write_line(const Fd& to, const std::string& line) {
    const std::string bytes = line + "\n";
    if (::write(to.get(), bytes.data(), bytes.size()) < 0) throw errno_error("write", "a pipe");
  }
  static std::string read_line(const Fd& from) {
    std::string line;
    for (char next = 0; ::read(from.get(), &next, 1) == 1 && next != '\n';) line.push_back(next);
    return line;
  }
  [[noreturn]] void serve(const net::Secret& secret, const std::filesystem::path& log) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGXFSZ, SIG_IGN);
    const std::string address = read_line(orders_);
    if (address.empty()) std::_Exit(0);
    const std::chrono::milliseconds silence(std::stoi(read_line(orders_)));
    const Coordinator coordinator(
        address, secret, 2, {},
        Coordinator::Log{.store = std::make_unique<authority::FileStore>(log), .terms = "terms"}, silence);
    write_line(answers_, coordinator.address());
    for (;;) ::pause();
  }

  pid_t pid_ = 0;
  Fd orders_;
  Fd answers_;
};

class Authority : public testing::Test {
 protected:
  static void expect_both(const Member& zero, const Member& one, bool without_coordinator) {
    ASSERT_TRUE(eventually([&] {
      return zero.is_without_coordinator() == without_coordinator &&
             one.is_without_coordinator() == without_coordinator;
    }));
  }
  static void expect_untouched(Member& zero, Member& one) {
    for (Member* member : {&zero, &one}) {
      EXPECT_FALSE(member->abandoned());
      EXPECT_THAT(member->losses(), IsEmpty());
    }
  }

  net::JobDir dir_;
  net::Secret secret_ = net::Secret::create(dir_.path() / "secret");
  CoordinatorProcess first_{secret_, dir_.path() / "decisions"};
  CoordinatorProcess second_{secret_, dir_.path() / "decisions"};
  CoordinatorProcess third_{secret_, dir_.path() / "decisions"};
  static constexpr std::chrono::milliseconds kPatient{5'000};
  std::string address_ = first_.start("127.0.0.1:0");
  std::unique_ptr<Member> zero_ = std::make_unique<Member>(address_, secret_, 0);
  std::unique_ptr<Member> one_ = std::make_unique<Member>(address_, secret_, 1);
};

TEST_F(Authority, EndsNoMemberWhileItHangs) {
  expect_exchange(*zero_, *one_);
  first_.signal(SIGSTOP);
  expect_both(*zero_, *one_, true);
  expect_untouched(*zero_, *one_);
  first_.signal(SIGCONT);
  expect_both(*zero_, *one_, false);
  expect_exchange(*zero_, *one_);
  expect_untouched(*zero_, *one_);
}

TEST_F(Authority, GoesOnWithTheTeamOfTheOneThatWasKilled) {
  for (int round = 0; round < 2; ++round) expect_exchange(*zero_, *one_);
  first_.kill();
  expect_both(*zero_, *one_, true);
  expect_untouched(*zero_, *one_);
  ASSERT_EQ(second_.start(address_), address_);
  expect_both(*zero_, *one_, false);
  expect_exchange(*zero_, *one_);
  expect_untouched(*zero_, *one_);
  (*zero_)->evict(1, 0);
  EXPECT_TRUE(eventually([&] { return zero_->losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
}

// What a member has given to it is given again.
TEST_F(Authority, CompletesAnExchangeThatBeganBeforeItWasKilled) {
  expect_exchange(*zero_, *one_);
  std::thread waiting([&] { EXPECT_THAT((*zero_)->exchange("try", "zero", soon()), ElementsAre("zero", "one")); });
  first_.kill();
  expect_both(*zero_, *one_, true);
  EXPECT_EQ(second_.start(address_), address_);
  EXPECT_THAT((*one_)->exchange("try", "one", soon()), ElementsAre("zero", "one"));
  waiting.join();
}

TEST_F(Authority, HearsOfAnEvictionThatWasAskedForWhileThereWasNone) {
  expect_exchange(*zero_, *one_);
  first_.kill();
  expect_both(*zero_, *one_, true);
  (*zero_)->evict(1, 0);
  ASSERT_EQ(second_.start(address_), address_);
  EXPECT_TRUE(eventually([&] { return zero_->losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
  EXPECT_TRUE(eventually([&] { return one_->losses().contains(1); }));  // it counts as evicted, for itself too
}

// A member that died while there was no coordinator does not ask for its seat.
TEST_F(Authority, NoticesADeathThatHappenedWhileThereWasNone) {
  expect_exchange(*zero_, *one_);
  first_.kill();
  expect_both(*zero_, *one_, true);
  one_.reset();
  ASSERT_EQ(second_.start(address_), address_);
  EXPECT_TRUE(eventually([&] { return zero_->losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
  EXPECT_FALSE(zero_->abandoned());
}

// The member that lives may have been told, by the one before, to wait for so long.
TEST_F(Authority, WaitsForTheLargerSilenceTimeAfterARestart) {
  first_.kill();
  CoordinatorProcess& patient = second_;
  zero_.reset();
  one_.reset();
  ASSERT_EQ(patient.start(address_, kPatient), address_);
  zero_ = std::make_unique<Member>(address_, secret_, 0);
  one_ = std::make_unique<Member>(address_, secret_, 1);
  EXPECT_EQ((*zero_)->longest_silence(), kPatient + kBeatInterval);
  expect_exchange(*zero_, *one_);
  patient.kill();
  expect_both(*zero_, *one_, true);
  one_.reset();
  ASSERT_EQ(third_.start(address_, kMinSilence), address_);
  ASSERT_TRUE(eventually([&] { return !zero_->is_without_coordinator(); }));
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return zero_->losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
  EXPECT_GE(std::chrono::steady_clock::now() - began, kPatient);
  EXPECT_EQ((*zero_)->longest_silence(), kMinSilence + kBeatInterval);
}

// It may be killed before a member had its own silence time: the next one must know of the former.
TEST_F(Authority, ForgetsTheLargerSilenceTimeOnlyWhenNoMemberHasIt) {
  const auto logged = [this] {
    Membership team(2);
    team.apply(TeamState{.seats = std::vector<SeatState>(2), .silent_beats = silent_beats(kMinSilence)});
    std::filesystem::copy_file(dir_.path() / "decisions", dir_.path() / "copy",
                               std::filesystem::copy_options::overwrite_existing);
    const DecisionLog log(std::make_unique<authority::FileStore>(dir_.path() / "copy"), "terms", team);
    return team.state().silent_beats;
  };
  expect_exchange(*zero_, *one_);
  first_.kill();
  expect_both(*zero_, *one_, true);
  ASSERT_EQ(second_.start(address_, kPatient), address_);
  expect_both(*zero_, *one_, false);
  EXPECT_EQ(logged(), silent_beats(kPatient));
  second_.kill();
  zero_.reset();
  one_.reset();
  ASSERT_EQ(third_.start(address_, kMinSilence), address_);
  EXPECT_EQ(logged(), silent_beats(kPatient));
}

// Nothing is left that the team had agreed on: it begins as without a log.
TEST_F(Authority, BeginsAnewWhenNoMemberIsLeft) {
  expect_exchange(*zero_, *one_);
  first_.kill();
  zero_.reset();
  one_.reset();
  ASSERT_EQ(second_.start(address_), address_);
  zero_ = std::make_unique<Member>(address_, secret_, 0);
  one_ = std::make_unique<Member>(address_, secret_, 1);
  EXPECT_EQ((*zero_)->incarnation(), 0);
  EXPECT_EQ((*one_)->standing().exchanges, 0u);
  expect_exchange(*zero_, *one_);
}

TEST_F(Authority, DecidesNothingThatItCannotKeep) {
  expect_exchange(*zero_, *one_);
  first_.fill_disk();
  (*zero_)->evict(1, 0);
  expect_both(*zero_, *one_, true);
  expect_untouched(*zero_, *one_);
  first_.kill();
  ASSERT_EQ(second_.start(address_), address_);  // the disk has room again
  EXPECT_TRUE(eventually([&] { return zero_->losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
}

/// Ranks 0 and 1 are strangers who speak the protocol, of a team that has exchanged once.
class Seat : public testing::Test {
 protected:
  void SetUp() override {
    team_ = Decoder(zero_.receive_frame(zero_session_).fields, "a welcome").number<std::uint64_t>();
    (void)one_.receive_frame(one_session_);
    contribute(zero_, zero_session_);
    contribute(one_, one_session_);
    EXPECT_EQ(zero_.receive_frame(zero_session_).kind, FrameKind::gathered);
    EXPECT_EQ(one_.receive_frame(one_session_).kind, FrameKind::gathered);
  }
  static void contribute(Stranger& member, net::Session& session) {
    const auto fields = Encoder().number(std::uint64_t{0}).number(std::uint32_t{20'000}).text("blob").take();
    member.send(session.seal(FrameKind::contribute, fields));
  }
  /// The answer to rank 1, which claims to have had that seat.
  FrameKind claim(std::uint64_t team, std::uint16_t incarnation, std::uint32_t epoch) {
    again_ = std::make_unique<Stranger>(coordinator_);
    again_session_.emplace(again_->shake_hands(secret_, 1, ClaimPurpose::keep_seat));
    again_->send(again_session_->seal(FrameKind::keep,
                                      Encoder().number(team).number(0U).number(incarnation).number(epoch).take()));
    return next(*again_, *again_session_).kind;
  }

  /// The next frame that is no beat.
  static net::Frame next(Stranger& member, net::Session& session) {
    net::Frame frame = member.receive_frame(session);
    while (frame.kind == FrameKind::beat) frame = member.receive_frame(session);
    return frame;
  }

  net::JobDir dir_;
  net::Secret secret_ = net::Secret::create(dir_.path() / "secret");
  Coordinator coordinator_{"127.0.0.1:0", secret_, 2, {}, {}, kMinSilence};
  Stranger zero_{coordinator_};
  net::Session zero_session_ = zero_.shake_hands(secret_, 0);
  Stranger one_{coordinator_};
  net::Session one_session_ = one_.shake_hands(secret_, 1);
  std::unique_ptr<Stranger> again_;
  std::optional<net::Session> again_session_;
  std::uint64_t team_ = 0;
};

TEST_F(Seat, IsKeptByTheProcessThatHasIt) {
  EXPECT_EQ(claim(team_, 0, 0), FrameKind::welcome);
  EXPECT_TRUE(one_.was_refused());       // its former connection
  contribute(*again_, *again_session_);  // the first exchange again: it may not have had the result
  EXPECT_EQ(next(*again_, *again_session_).kind, FrameKind::gathered);
}

TEST_F(Seat, IsKeptByAProcessWhoseConnectionBroke) {
  one_.reset();
  EXPECT_EQ(claim(team_, 0, 0), FrameKind::welcome);
}

TEST_F(Seat, IsNotThatOfAnotherProcess) {
  EXPECT_EQ(claim(team_ + 1, 0, 0), FrameKind::unknown);
  EXPECT_EQ(claim(team_ - 1, 0, 0), FrameKind::refused);  // all processes of that one were declared dead
  EXPECT_EQ(claim(team_, 0, 0), FrameKind::welcome);
}

// A log that was rolled back: it is no reason for members to end.
TEST_F(Seat, IsNotDecidedByACoordinatorThatKnowsLess) {
  EXPECT_EQ(claim(team_, 0, 1), FrameKind::unknown);
  EXPECT_EQ(claim(team_, 1, 0), FrameKind::unknown);
}

// The answer came too late: the member has closed that connection, and lives.
TEST_F(Seat, IsKeptWhenAClaimThatWasGivenUpIsHeard) {
  EXPECT_EQ(claim(team_, 0, 0), FrameKind::welcome);
  again_.reset();  // as a process that ended closes it
  EXPECT_EQ(claim(team_, 0, 0), FrameKind::welcome);
  again_->send(again_session_->seal(FrameKind::beat));
  zero_.send(zero_session_.seal(FrameKind::evict, Encoder().number(Rank{1}).number(std::uint16_t{0}).take()));
  const net::Frame first = next(zero_, zero_session_);  // no loss before this one
  Decoder fields(first.fields, "a loss");
  EXPECT_EQ(fields.number<std::uint32_t>(), 1u);
  EXPECT_EQ(fields.number<Rank>(), 1u);
  EXPECT_EQ(fields.number<std::uint8_t>(), static_cast<std::uint8_t>(Loss::evicted));
}

TEST_F(Seat, IsNotKeptByAProcessThatWasEvicted) {
  zero_.send(zero_session_.seal(FrameKind::evict, Encoder().number(Rank{1}).number(std::uint16_t{0}).take()));
  EXPECT_EQ(next(zero_, zero_session_).kind, FrameKind::lost);
  EXPECT_EQ(claim(team_, 0, 0), FrameKind::refused);
}

// It has to wait until the former one is declared dead.
TEST_F(Seat, IsANewProcesssOnlyWhenItsOwnHasNotComeBack) {
  one_.reset();
  EXPECT_EQ(claim(team_, 0, 0), FrameKind::welcome);  // so the reset was heard
  again_->reset();
  Stranger successor(coordinator_);
  net::Session session = successor.shake_hands(secret_, 1);
  const net::Frame welcome = successor.receive_frame(session);
  ASSERT_EQ(welcome.kind, FrameKind::welcome);
  Decoder fields(welcome.fields, "a welcome");
  (void)fields.number<std::uint64_t>();
  (void)fields.number<std::uint32_t>();
  (void)fields.number<Rank>();
  EXPECT_EQ(fields.number<std::uint16_t>(), 1u);
  EXPECT_EQ(next(zero_, zero_session_).kind, FrameKind::lost);
}

// A contribution that its sender was not sure of.
TEST_F(Seat, IsNotLostByAContributionThatComesTwice) {
  const auto second = Encoder().number(1U).number(0U).number(std::uint32_t{20'000}).text("blob").take();
  for (int time = 0; time < 2; ++time) one_.send(one_session_.seal(FrameKind::contribute, second));
  zero_.send(zero_session_.seal(FrameKind::contribute, second));
  EXPECT_EQ(next(one_, one_session_).kind, FrameKind::gathered);
}

TEST_F(Seat, ComesWithTheChangesThatWereMissed) {
  one_.send(one_session_.seal(FrameKind::leave));
  EXPECT_EQ(next(zero_, zero_session_).kind, FrameKind::lost);
  again_ = std::make_unique<Stranger>(coordinator_);
  again_session_.emplace(again_->shake_hands(secret_, 0, ClaimPurpose::keep_seat));
  const auto known = Encoder().number(team_).number(0U).number(std::uint16_t{0}).number(std::uint32_t{0}).take();
  again_->send(again_session_->seal(FrameKind::keep, known));
  EXPECT_EQ(next(*again_, *again_session_).kind, FrameKind::welcome);
  const net::Frame missed = next(*again_, *again_session_);
  EXPECT_EQ(missed.kind, FrameKind::lost);
  EXPECT_EQ(Decoder(missed.fields, "a loss").number<std::uint32_t>(), 1u);
}

TEST(Coordinator, TellsMembersOnOtherHostsThatItEndsTheTeam) {
  const net::JobDir dir;
  const net::Secret secret = net::Secret::create(dir.path() / "secret");
  auto coordinator = std::make_unique<Coordinator>("127.0.0.1:0", secret, 1);
  Member zero(*coordinator, secret, 0);
  EXPECT_THAT(zero->exchange("try", "zero", soon()), ElementsAre("zero"));
  coordinator->end_team();
  EXPECT_TRUE(eventually([&] { return zero.abandoned(); }));
}

}  // namespace
}  // namespace farside::team
