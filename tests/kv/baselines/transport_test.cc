// Requests between processes over each transport: what is sent comes back, whatever else others send.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "kv/server/server.h"
#include "kv_baselines/transports/framed_stream.h"
#include "kv_baselines/transports/socket_inbox.h"
#include "kv_baselines/transports/team_transport.h"
#include "net/socket.h"
#include "tests/support/fleet.h"
#include "tests/support/fleet_team.h"
#include "tests/support/hosts.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using kv_baselines::Transport;

using namespace kv;

constexpr ServerNumber kServers = 2;
constexpr std::uint32_t kSessions = 2;
constexpr MailboxShape kShape{.slots = 4, .slot_bytes = 256};

Message some_bytes(std::size_t bytes, std::size_t first) {
  Message message(bytes);
  for (std::byte& each : message) each = static_cast<std::byte>(first++);
  return message;
}

class KvTransport : public testing::TestWithParam<Transport> {
 protected:
  using Talk = std::function<void(team::Team&, kv_baselines::TeamTransport&, Channel&)>;

  void SetUp() override {
    if (GetParam() == Transport::socket && Hosts::wanted()) GTEST_SKIP() << "servers listen on loopback";
  }

  /// Servers that send back what they get, but end the connection of who sends nothing, and a client that talks.
  static void talk_with_echoes(const Talk& talk, const MailboxShape& shape = kShape) {
    const Shared<std::atomic<bool>> over;
    Fleet fleet(kServers + 1, [&](Member& me) {
      FleetTeam team(me);
      const auto channel = team.fabric().open_channel();
      kv_baselines::TeamTransport transport(
          team, {.servers = kServers, .sessions = kSessions, .transport = GetParam(), .mailbox = shape});
      if (team.rank() < kServers) {
        const auto inbox = transport.open_inbox(*channel);
        me.barrier();
        Server server(*inbox,
                      [](std::span<const std::byte> request) { return Message(request.begin(), request.end()); });
        server.serve_until([&over] { return over->load(); });
      } else {
        me.barrier();
        try {
          talk(team, transport, *channel);
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
        *over = true;
      }
    });
    fleet.expect_success();
  }
  static void expect_echo(team::Team& team, Requests& requests, ServerNumber server, const Message& message) {
    const Deadline deadline = team.fabric().in(std::chrono::seconds(60));
    ASSERT_EQ(requests.send(server, message, deadline), Outcome::done);
    const auto reply = requests.receive(server, deadline);
    ASSERT_EQ(reply.status, Outcome::done);
    ASSERT_TRUE(reply.value == message) << message.size() << " bytes";
  }
};

INSTANTIATE_TEST_SUITE_P(All, KvTransport,
                         testing::Values(Transport::mailbox, Transport::send_receive, Transport::socket),
                         [](const auto& tested) {
                           switch (tested.param) {
                             case Transport::mailbox: return "Mailbox";
                             case Transport::send_receive: return "SendReceive";
                             case Transport::socket: break;
                           }
                           return "Socket";
                         });

// Around the borders of a slot, and the largest value with its key.
TEST_P(KvTransport, CarriesEverySize) {
  talk_with_echoes([](team::Team& team, kv_baselines::TeamTransport& transport, Channel& channel) {
    const auto requests = transport.open_requests(channel, 0);
    for (const std::size_t around : {std::size_t{20}, std::size_t{256}, std::size_t{1024}, std::size_t{2304}}) {
      for (std::size_t bytes = around - 19; bytes < around + 10; ++bytes) {
        expect_echo(team, *requests, bytes % kServers, some_bytes(bytes, bytes));
      }
    }
  });
}

TEST_P(KvTransport, CarriesTheLargestValueWithItsKey) {
  talk_with_echoes(
      [](team::Team& team, kv_baselines::TeamTransport& transport, Channel& channel) {
        const auto requests = transport.open_requests(channel, 0);
        expect_echo(team, *requests, 1, some_bytes((16U << 20U) + (64U << 10U) + 200, 9));
      },
      {});
}

// Of two sessions to two servers, in the order of the requests; some are longer than all that is under way at once.
TEST_P(KvTransport, AnswersManyUnderWayInTheirOrder) {
  talk_with_echoes([](team::Team& team, kv_baselines::TeamTransport& transport, Channel& channel) {
    constexpr std::size_t kMany = 60;
    const std::vector<std::unique_ptr<Requests>> sessions = [&] {
      std::vector<std::unique_ptr<Requests>> opened;
      for (std::uint32_t session = 0; session < kSessions; ++session) {
        opened.push_back(transport.open_requests(channel, session));
      }
      return opened;
    }();
    const auto message = [](std::size_t number) { return some_bytes(number % 7 == 0 ? 3000 : number, number); };
    const Deadline deadline = team.fabric().in(std::chrono::seconds(60));
    for (std::size_t i = 1; i <= kMany; ++i) {
      ASSERT_EQ(sessions[i % 2]->send(i / 2 % kServers, message(i), deadline), Outcome::done);
    }
    for (std::size_t i = 1; i <= kMany; ++i) {
      const auto reply = sessions[i % 2]->receive(i / 2 % kServers, deadline);
      ASSERT_EQ(reply.status, Outcome::done);
      ASSERT_EQ(reply.value, message(i)) << "number " << i;
    }
  });
}

// A reply that was not awaited is dropped, and whether one is there can be asked without waiting.
TEST_P(KvTransport, DropsTheReplyThatWasGivenUp) {
  talk_with_echoes([](team::Team& team, kv_baselines::TeamTransport& transport, Channel& channel) {
    const auto requests = transport.open_requests(channel, 0);
    const Deadline deadline = team.fabric().in(std::chrono::seconds(60));
    for (std::size_t i = 1; i <= 20; ++i) {
      EXPECT_FALSE(requests->has_reply(0));
      ASSERT_EQ(requests->send(0, some_bytes(i, 1), deadline), Outcome::done);
      const auto early = requests->receive(0, {team.fabric().now()});
      EXPECT_TRUE(!early.done() || early.value == some_bytes(i, 1));
      ASSERT_EQ(requests->send(0, some_bytes(i, 2), deadline), Outcome::done);
      const auto reply = requests->receive(0, deadline);
      ASSERT_EQ(reply.status, Outcome::done);
      ASSERT_EQ(reply.value, some_bytes(i, 2));
    }
    EXPECT_THROW((void)requests->receive(0, deadline), UsageError);
    EXPECT_THROW((void)requests->send(0, Message(kMaxMessageBytes + 1), deadline), UsageError);
  });
}

// A request that the server has no answer to ends that session's connection to it, and no other.
TEST_P(KvTransport, EndsTheConnectionOfWhoMakesNoSense) {
  talk_with_echoes([](team::Team& team, kv_baselines::TeamTransport& transport, Channel& channel) {
    const auto wild = transport.open_requests(channel, 0);
    const auto tame = transport.open_requests(channel, 1);
    const Deadline deadline = team.fabric().in(std::chrono::seconds(60));
    ASSERT_EQ(wild->send(0, {}, deadline), Outcome::done);
    const auto soon = [&team] { return team.fabric().in(std::chrono::milliseconds(200)); };
    EXPECT_FALSE(wild->receive(0, soon()).done());
    const bool is_sent = wild->send(0, some_bytes(100, 1), soon()) == Outcome::done;
    EXPECT_FALSE(is_sent && wild->receive(0, soon()).done());
    expect_echo(team, *tame, 0, some_bytes(100, 1));
    expect_echo(team, *wild, 1, some_bytes(100, 1));
  });
}

/// What a server listening on a socket of this process is sent, and whether it then closes the connection.
class KvSocketInbox : public testing::Test {
 protected:
  [[nodiscard]] Fd connect() const {
    return net::connect_to(inbox_.address(), net::SetupClock::now() + std::chrono::minutes(1));
  }
  void send(const Fd& socket, std::string_view bytes) {
    net::write_all(socket, bytes, net::SetupClock::now() + std::chrono::minutes(1));
    serve();
  }
  void serve() {
    for (int i = 0; i < 20; ++i) (void)inbox_.serve(answer_, std::chrono::milliseconds(1));
  }
  static std::string frame(std::uint32_t length, std::string_view bytes) {
    std::string framed(sizeof length, '\0');
    std::memcpy(framed.data(), &length, sizeof length);
    return framed.append(bytes);
  }
  static std::string read(const Fd& socket, std::size_t bytes) {
    return net::read_exactly(socket, bytes, net::SetupClock::now() + std::chrono::minutes(1));
  }

  std::unique_ptr<Fabric> fabric_ = make_host_fabric({});
  kv_baselines::SocketInbox inbox_{*fabric_, "127.0.0.1:0"};
  Inbox::Answer answer_ = [](std::span<const std::byte> request) { return Message(request.begin(), request.end()); };
};

TEST_F(KvSocketInbox, TakesAFrameInAnyPieces) {
  const Fd socket = connect();
  const std::string sent = frame(5, "hello") + frame(3, "you");
  for (const char byte : sent) send(socket, {&byte, 1});
  EXPECT_EQ(read(socket, sent.size()), sent);
}

TEST_F(KvSocketInbox, ClosesOnAFrameThatIsTooLongAndServesTheOthers) {
  const Fd wild = connect();
  const Fd tame = connect();
  send(wild, frame(kMaxMessageBytes + 1, "and so on"));
  EXPECT_THROW((void)read(wild, 1), Error);
  send(tame, frame(5, "hello"));
  EXPECT_EQ(read(tame, 9), frame(5, "hello"));
}

TEST_F(KvSocketInbox, ForgetsWhoEndsInTheMiddleOfAFrame) {
  { send(connect(), frame(100, "only this")); }
  serve();
  const Fd socket = connect();
  send(socket, frame(5, "hello"));
  EXPECT_EQ(read(socket, 9), frame(5, "hello"));
}

// Who takes no replies is not listened to: neither memory nor the others' time is his.
TEST_F(KvSocketInbox, DoesNotListenToWhoTakesNoReplies) {
  std::size_t answered = 0;
  answer_ = [&answered](std::span<const std::byte>) {
    ++answered;
    return Message(16U << 20U);
  };
  const Fd greedy = connect();
  std::string many;
  for (int i = 0; i < 1000; ++i) many += frame(1, "x");
  send(greedy, many);
  EXPECT_GE(answered, 1U);
  EXPECT_LE(answered, 3U);
}

}  // namespace
}  // namespace farside::test
