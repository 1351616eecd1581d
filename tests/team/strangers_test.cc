// Strangers at each of the sockets that a coordinator listens on: that of one host, and a port.
#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "base/wire.h"
#include "tests/support/crowd.h"
#include "tests/support/descriptors.h"
#include "tests/team/coordinator_fixture.h"
#include "tests/team/stranger.h"

namespace farside::team {
namespace {

using test::CoordinatorTest;
using test::Crowd;
using test::expect_resident_below;
using test::Member;
using test::open_descriptors;
using test::resident_bytes;
using test::Stranger;
using testing::HasSubstr;

constexpr const char* kPort = "127.0.0.1:0";

class Strangers : public CoordinatorTest, public testing::WithParamInterface<std::string> {
 protected:
  Strangers() : CoordinatorTest(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(At, Strangers, testing::Values("", kPort),
                         [](const auto& address) { return address.param.empty() ? "UnixSocket" : "Port"; });

/// A secret that is in no file of the pool.
net::Secret make_secret() {
  static std::atomic<int> count = 0;
  const net::JobDir dir;
  return net::Secret::create(dir.path() / ("secret" + std::to_string(count++)));
}

TEST_P(Strangers, RefusesAWrongSecretOrNoneAndDisturbsNoMember) {
  Member zero(coordinator_, secret_, 0);
  Stranger stranger(coordinator_);
  stranger.shake_hands(make_secret(), 1);
  EXPECT_TRUE(stranger.was_refused());
  Stranger without(coordinator_);
  without.send(net::wire_bytes(net::make_hello()));
  without.send(net::wire_bytes(net::Claim{.rank = 1}));
  EXPECT_TRUE(without.was_refused());
  Member one(coordinator_, secret_, 1);
  expect_exchange(zero, one);
}

// The proof is mutual: a member does not talk to a process that took the coordinator's address.
TEST_P(Strangers, IsRefusedByMembersOfAnotherPool) {
  try {
    const Member member(coordinator_, make_secret(), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("does not know this pool's secret"));
  }
}

TEST_P(Strangers, RefusesRandomBytes) {
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

TEST_P(Strangers, RefusesFramesThatAreTooLong) {
  Stranger member(coordinator_);
  member.shake_hands(secret_, 0);
  member.send(Encoder().number(std::uint32_t{0xffffffff}).take() + std::string(16, '\0'));
  EXPECT_TRUE(member.was_refused());
}

TEST_P(Strangers, RefusesFramesThatWereAltered) {
  Stranger member(coordinator_);
  net::Session session = member.shake_hands(secret_, 0);
  std::string frame = session.seal(net::FrameKind::contribute, Encoder().number(std::uint32_t{0}).text("blob").take());
  frame.back() ^= 1;
  member.send(frame);
  EXPECT_TRUE(member.was_refused());
}

TEST_P(Strangers, RefusesFramesThatAreRepeated) {
  Stranger member(coordinator_);
  net::Session session = member.shake_hands(secret_, 0);
  const std::string beat = session.seal(net::FrameKind::beat);
  member.send(beat + beat);
  EXPECT_TRUE(member.was_refused());
}

// What a member recorded of an earlier handshake is worth nothing.
TEST_P(Strangers, RefusesAReplayedHandshake) {
  const net::Hello hello = net::make_hello();
  Stranger member(coordinator_);
  member.send(net::wire_bytes(hello));
  const net::Claim claim = net::make_claim(secret_, hello, member.receive<net::Challenge>(), 0);

  Stranger replay(coordinator_);
  replay.send(net::wire_bytes(hello));
  (void)replay.receive<net::Challenge>();
  replay.send(net::wire_bytes(claim));
  EXPECT_TRUE(replay.was_refused());
}

// Both sides of a version mismatch learn of it.
TEST_P(Strangers, RefusesAnotherProtocolAndNamesItsOwn) {
  net::Hello hello = net::make_hello();
  hello.preamble.protocol = net::kTeamProtocol + 1;
  Stranger stranger(coordinator_);
  stranger.send(net::wire_bytes(hello));
  EXPECT_EQ(stranger.receive<net::Challenge>().preamble.protocol, net::kTeamProtocol);
  EXPECT_TRUE(stranger.was_refused());
}

// A peer that stops in the middle of the handshake is sent away, and no member waits for it until then.
TEST_F(CoordinatorTest, RefusesWhoDoesNotFinishTheHandshake) {
  const Coordinator at_port(kPort, secret_, 2);
  Member zero(coordinator_, secret_, 0);
  Member one(coordinator_, secret_, 1);
  std::vector<std::unique_ptr<Stranger>> strangers;
  const std::string hello(net::wire_bytes(net::make_hello()));
  for (const Coordinator* coordinator : std::initializer_list<const Coordinator*>{&coordinator_, &at_port}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{20}, hello.size()}) {
      strangers.push_back(std::make_unique<Stranger>(*coordinator));
      strangers.back()->send(hello.substr(0, bytes));
    }
  }
  expect_exchange(zero, one);
  for (const auto& stranger : strangers) EXPECT_TRUE(stranger->was_refused());
  expect_exchange(zero, one);
}

// Ten thousand peers come and stay; half of them say the beginning of something, and the others nothing. The members go
// on all along, a peer that knows the secret is let in, and neither descriptors nor memory nor the log fill up.
TEST_P(Strangers, AreHeldOffInCrowds) {
  Member zero(coordinator_, secret_, 0);
  testing::internal::CaptureStderr();
  const auto start = net::SetupClock::now();
  const std::size_t descriptors_before = open_descriptors();
  const std::uint64_t bytes_before = resident_bytes();
  {
    Crowd crowd(coordinator_.address());
    Member one(coordinator_, secret_, 1);
    expect_exchange(zero, one);
    const std::size_t size = crowd.wait_until_complete();
    expect_exchange(zero, one);
    EXPECT_GT(size, 500u);  // else this shows little
    EXPECT_LT(open_descriptors(), descriptors_before + 200);
    expect_resident_below(bytes_before + (64 << 20));
  }
  const std::unique_ptr<Member> again = take_free_seat(1);
  ASSERT_NE(again, nullptr);

  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(net::SetupClock::now() - start).count();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("too many strangers wait"));
  EXPECT_LE(std::ranges::count(log, '\n'), seconds + 1);
}

}  // namespace
}  // namespace farside::team
