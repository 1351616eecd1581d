// The coordinator between members that behave and strangers that do not.
#include "team/coordinator.h"

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "farside/base/error.h"

#include "base/wire.h"
#include "team/coordinator_client.h"
#include "team/liveness.h"
#include "team/runtime_dir.h"
#include "tests/support/shared.h"
#include "tests/team/coordinator_fixture.h"

namespace farside {
namespace {

using test::CoordinatorTest;
using test::eventually;
using test::Member;
using test::soon;
using testing::ElementsAre;
using testing::HasSubstr;

/// A secret that is in no file of the pool.
Secret make_secret() {
  static std::atomic<int> count = 0;
  const JobDir dir;
  return Secret::create(dir.path() / ("secret" + std::to_string(count++)));
}

/// Whoever connects and then does as it likes.
class Stranger {
 public:
  explicit Stranger(const Coordinator& coordinator) : socket_(connect_to(coordinator.address(), soon())) {}

  void send(std::string_view bytes) { write_all(socket_, bytes, soon()); }
  template <class Message>
  Message receive() {
    Message message;
    std::memcpy(&message, read_exactly(socket_, sizeof message, soon()).data(), sizeof message);
    return message;
  }
  /// The coordinator hung up, perhaps after a last word.
  bool was_refused() {
    return eventually(
        [this] {
          std::array<char, 256> last_words;
          const ssize_t count = ::recv(socket_.get(), last_words.data(), last_words.size(), 0);
          return count == 0 || (count < 0 && errno == ECONNRESET);
        },
        std::chrono::seconds(20));
  }
  /// Proves to know `secret` and claims `rank`.
  Session shake_hands(const Secret& secret, Rank rank) {
    const Hello hello = make_hello();
    send(wire_bytes(hello));
    const auto challenge = receive<Challenge>();
    const Claim claim = make_claim(secret, hello, challenge, rank);
    send(wire_bytes(claim));
    return {session_key(secret, hello, challenge, claim), Session::Side::member, 1 << 20};
  }

 private:
  Fd socket_;
};

TEST_F(CoordinatorTest, GathersWhatEveryRankContributes) {
  Member zero(coordinator_, secret_, 0);
  Member one(coordinator_, secret_, 1);
  EXPECT_EQ(zero->size(), 2u);
  for (int round = 0; round < 3; ++round) expect_exchange(zero, one);
}

TEST_F(CoordinatorTest, RefusesAWrongSecretAndDisturbsNobody) {
  Member zero(coordinator_, secret_, 0);
  Stranger stranger(coordinator_);
  stranger.shake_hands(make_secret(), 1);
  EXPECT_TRUE(stranger.was_refused());
  Member one(coordinator_, secret_, 1);
  expect_exchange(zero, one);
}

// The proof is mutual: a member does not talk to somebody who took the coordinator's address.
TEST_F(CoordinatorTest, IsRefusedByMembersOfAnotherPool) {
  try {
    const Member member(coordinator_, make_secret(), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not know this pool's secret"));
  }
}

TEST_F(CoordinatorTest, RefusesRandomBytes) {
  Member zero(coordinator_, secret_, 0);
  std::mt19937 random(7);
  for (const std::size_t length : {48, 88, 1000, 100'000}) {
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    Stranger stranger(coordinator_);
    try {
      stranger.send(bytes);
    } catch (const Error&) {  // it hung up before it had read them all
    }
    EXPECT_TRUE(stranger.was_refused());
  }
  Member one(coordinator_, secret_, 1);
  expect_exchange(zero, one);
}

// Whoever stops in the middle of the handshake is sent away, and nobody waits for it meanwhile.
TEST_F(CoordinatorTest, RefusesWhoDoesNotFinishTheHandshake) {
  Stranger silent(coordinator_);
  Stranger slow(coordinator_);
  slow.send(wire_bytes(make_hello()).substr(0, 20));
  Stranger halfway(coordinator_);
  halfway.send(wire_bytes(make_hello()));

  Member zero(coordinator_, secret_, 0);
  Member one(coordinator_, secret_, 1);
  expect_exchange(zero, one);
  for (Stranger* stranger : {&silent, &slow, &halfway}) EXPECT_TRUE(stranger->was_refused());
  expect_exchange(zero, one);
}

TEST_F(CoordinatorTest, AdmitsMembersThroughACrowdOfStrangers) {
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(std::make_unique<Stranger>(coordinator_));
  Member zero(coordinator_, secret_, 0);
  Member one(coordinator_, secret_, 1);
  expect_exchange(zero, one);
  EXPECT_TRUE(crowd.front()->was_refused());  // the oldest make room
}

TEST_F(CoordinatorTest, RefusesFramesThatAreTooLong) {
  Stranger member(coordinator_);
  member.shake_hands(secret_, 0);
  member.send(Encoder().number(std::uint32_t{0xffffffff}).take() + std::string(16, '\0'));
  EXPECT_TRUE(member.was_refused());
}

TEST_F(CoordinatorTest, RefusesFramesThatWereAltered) {
  Stranger member(coordinator_);
  Session session = member.shake_hands(secret_, 0);
  std::string frame = session.seal(FrameKind::contribute, Encoder().number(std::uint32_t{0}).text("blob").take());
  frame.back() ^= 1;
  member.send(frame);
  EXPECT_TRUE(member.was_refused());
}

TEST_F(CoordinatorTest, RefusesFramesThatAreRepeated) {
  Stranger member(coordinator_);
  Session session = member.shake_hands(secret_, 0);
  const std::string beat = session.seal(FrameKind::beat);
  member.send(beat + beat);
  EXPECT_TRUE(member.was_refused());
}

// What a member recorded of an earlier handshake is worth nothing.
TEST_F(CoordinatorTest, RefusesAReplayedHandshake) {
  const Hello hello = make_hello();
  Stranger member(coordinator_);
  member.send(wire_bytes(hello));
  const Claim claim = make_claim(secret_, hello, member.receive<Challenge>(), 0);

  Stranger replay(coordinator_);
  replay.send(wire_bytes(hello));
  (void)replay.receive<Challenge>();
  replay.send(wire_bytes(claim));
  EXPECT_TRUE(replay.was_refused());
}

// Both sides of a version mismatch learn of it.
TEST_F(CoordinatorTest, RefusesAnotherProtocolAndNamesItsOwn) {
  Hello hello = make_hello();
  hello.greeting.protocol = kTeamProtocol + 1;
  Stranger stranger(coordinator_);
  stranger.send(wire_bytes(hello));
  EXPECT_EQ(stranger.receive<Challenge>().greeting.protocol, kTeamProtocol);
  EXPECT_TRUE(stranger.was_refused());
}

TEST_F(CoordinatorTest, GivesARankToOneProcessAtATime) {
  const Member zero(coordinator_, secret_, 0);
  for (const auto& [rank, reason] : std::map<Rank, std::string>{{0, "rank 0 is taken"}, {2, "rank 2 does not exist"}}) {
    try {
      const Member second(coordinator_, secret_, rank);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
  }
}

// While the team forms, a rank may start again, as a new incarnation.
TEST_F(CoordinatorTest, CountsIncarnations) {
  for (std::uint16_t incarnation = 0; incarnation < 3; ++incarnation) {
    const std::unique_ptr<Member> member = take_free_seat(0);
    ASSERT_NE(member, nullptr);
    EXPECT_EQ((*member)->incarnation(), incarnation);
  }
}

TEST_F(CoordinatorTest, TellsOfADeath) {
  Member zero(coordinator_, secret_, 0);
  {
    Member one(coordinator_, secret_, 1);
    expect_exchange(zero, one);
  }
  ASSERT_TRUE(eventually([&] { return zero.losses() == std::map<Rank, Loss>{{1, Loss::died}}; }));
  EXPECT_THROW((void)zero->exchange("try", "zero", soon()), Error);  // at once: nobody waits for the dead
}

// Whoever waits for somebody learns for whom.
TEST_F(CoordinatorTest, NamesTheRankThatDidNotCome) {
  Member zero(coordinator_, secret_, 0);
  try {
    (void)zero->exchange("try", "zero", SetupClock::now() + std::chrono::milliseconds(100));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 did not take part in time"));
  }
}

// Nobody waits for a process that has ended: neither who comes later, nor who waits already.
TEST_F(CoordinatorTest, NamesTheRankThatEndedInsteadOfJoining) {
  for (const bool ended_before : {true, false}) {
    Coordinator coordinator(dir_.path() / (ended_before ? "before" : "after"), secret_, 2);
    if (ended_before) coordinator.miss(1, "exited with code 0");
    Member zero(coordinator, secret_, 0);
    std::thread waiting([&] {
      try {
        (void)zero->exchange("try", "zero", SetupClock::now() + std::chrono::hours(1));
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 1 exited with code 0 and never joined"));
      }
    });
    if (!ended_before) coordinator.miss(1, "exited with code 0");
    waiting.join();
  }
}

TEST_F(CoordinatorTest, TellsWhoLeftAndWhoWasEvicted) {
  Member zero(coordinator_, secret_, 0);
  Member one(coordinator_, secret_, 1);
  expect_exchange(zero, one);
  zero->evict(1);
  ASSERT_TRUE(eventually([&] { return zero.losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
  ASSERT_TRUE(eventually([&] { return one.losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
}

// Between hosts nobody sees a process end, so whoever falls silent is evicted.
TEST_F(CoordinatorTest, EvictsWhoFallsSilentOnAnotherHost) {
  const Coordinator coordinator("127.0.0.1:0", secret_, 2);
  Member zero(coordinator, secret_, 0);
  Stranger one(coordinator);
  Session session = one.shake_hands(secret_, 1);
  const std::string first = Encoder().number(std::uint64_t{0}).number(std::uint32_t{20'000}).text("one").take();
  one.send(session.seal(FrameKind::contribute, first));
  EXPECT_THAT(zero->exchange("try", "zero", soon()), ElementsAre("zero", "one"));
  EXPECT_TRUE(eventually([&] { return zero.losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
  EXPECT_FALSE(zero.abandoned());  // its own beats are heard
}

TEST(Coordinator, IsMissedWhenItGoes) {
  const JobDir dir;
  const Secret secret = Secret::create(dir.path() / "secret");
  auto coordinator = std::make_unique<Coordinator>(dir.path() / "coordinator", secret, 1);
  const Member zero(*coordinator, secret, 0);
  coordinator.reset();
  EXPECT_TRUE(eventually([&] { return zero.abandoned(); }));
}

// A flood of strangers does not fill the log.
TEST_F(CoordinatorTest, LogsAtMostOneRefusalASecond) {
  testing::internal::CaptureStderr();
  const auto start = SetupClock::now();
  for (int i = 0; i < 30; ++i) {
    Stranger stranger(coordinator_);
    stranger.send(std::string(48, 'x'));
    EXPECT_TRUE(stranger.was_refused());
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(SetupClock::now() - start).count();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("it does not speak farside"));
  EXPECT_LE(std::ranges::count(log, '\n'), seconds + 1);
}

}  // namespace
}  // namespace farside
