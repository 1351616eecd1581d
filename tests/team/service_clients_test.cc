// A service and clients that connect without a word: its own clients are let in.
#include "service/service_clients.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "net/handshake.h"
#include "net/runtime_dir.h"
#include "service/service_link.h"
#include "tests/support/fleet.h"
#include "tests/support/shared.h"

namespace farside::team {
namespace {

constexpr std::size_t kMoreThanWait = 200;

net::SetupClock::time_point in_a_minute() { return net::SetupClock::now() + std::chrono::seconds(60); }

/// Says "welcome", and what it is told.
class Echo final : public service::ServiceClients::Handler {
 public:
  Echo(const net::Secret& secret, const std::vector<std::string>& addresses)
      : clients_(loop_, secret, *this, addresses) {}
  ~Echo() override { loop_.stop(); }

  std::string welcome() override { return "welcome"; }
  service::ServiceClients::Refusal handle(service::ServiceClients::Number number, const std::string& message) override {
    clients_.say(number, message);
    return {};
  }
  [[nodiscard]] std::string refusal(const std::string& reason) const override { return reason; }
  void part(service::ServiceClients::Number /*number*/) override {}

 private:
  net::EventLoop loop_;
  service::ServiceClients clients_;
};

class ServiceClientsTest : public testing::Test {
 protected:
  void expect_welcome(const std::string& address) const {
    service::ServiceLink link({"reach the service at", address}, secret_, in_a_minute());
    EXPECT_EQ(link.receive(in_a_minute()), "welcome");
    link.send("echo", in_a_minute());
    EXPECT_EQ(link.receive(in_a_minute()), "echo");
  }

  net::JobDir dir_;
  net::Secret secret_ = net::Secret::create(dir_.path() / "secret");
  std::string busy_ = dir_.path() / "busy";
  std::string quiet_ = dir_.path() / "quiet";
};

// The oldest connections that have proven nothing make room, and those of one listener cost the other nothing.
TEST_F(ServiceClientsTest, IdleConnectionsKeepNoClientOut) {
  const Echo service(secret_, {busy_, quiet_});
  const Fd idle = net::connect_to(quiet_, in_a_minute());
  service::ServiceLink known({"reach the service at", busy_}, secret_, in_a_minute());
  EXPECT_EQ(known.receive(in_a_minute()), "welcome");
  std::vector<Fd> crowd;
  for (std::size_t i = 0; i < kMoreThanWait; ++i) crowd.push_back(net::connect_to(busy_, in_a_minute()));
  expect_welcome(busy_);
  expect_welcome(quiet_);
  known.send("still there", in_a_minute());
  EXPECT_EQ(known.receive(in_a_minute()), "still there");
  char byte = 0;
  EXPECT_EQ(::recv(idle.get(), &byte, 1, MSG_DONTWAIT), -1) << "it was closed for those of another listener";
  EXPECT_EQ(::recv(crowd.front().get(), &byte, 1, 0), 0) << "the oldest was not closed";
}

/// Takes connections at an address and passes what comes to another one, and its answers back. It closes each of the
/// first ones when so many bytes have come; one with the limit kHangs it keeps, and passes nothing.
class Relay {
 public:
  Relay(const std::string& at, std::string to, std::vector<std::size_t> limits)
      : listener_(net::listen_on(at)), to_(std::move(to)), limits_(std::move(limits)), thread_([this] { serve(); }) {}

  ~Relay() { ::shutdown(listener_.get(), SHUT_RDWR); }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  static constexpr std::size_t kHangs = std::numeric_limits<std::size_t>::max();

 private:
  void serve() const {
    std::vector<Fd> hung;
    for (const std::size_t limit : limits_) {
      Fd client = accept_client();
      if (limit == kHangs) {
        hung.push_back(std::move(client));
      } else {
        pass(client, limit);
      }
    }
    while (const Fd client = accept_client()) pass(client, std::numeric_limits<std::size_t>::max());
  }
  /// Nothing at the end of this.
  [[nodiscard]] Fd accept_client() const {
    pollfd incoming{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&incoming, 1, kPollMs), 1);
    return Fd(::accept(listener_.get(), nullptr, nullptr));
  }
  void pass(const Fd& client, std::size_t limit) const {
    const Fd server = net::connect_to(to_, in_a_minute());
    std::array<pollfd, 2> ends{pollfd{client.get(), POLLIN, 0}, pollfd{server.get(), POLLIN, 0}};
    for (std::size_t came = 0; came < limit;) {
      ASSERT_GT(::poll(ends.data(), ends.size(), kPollMs), 0);
      for (const std::size_t from : {0, 1}) {
        if (ends[from].revents == 0) continue;
        std::array<char, 256> bytes;
        const ssize_t count = ::recv(ends[from].fd, bytes.data(), std::min(bytes.size(), limit - came), 0);
        if (count <= 0) return;
        if (from == 0) came += static_cast<std::size_t>(count);
        if (came >= limit) continue;
        try {
          net::write_all(from == 0 ? server : client, {bytes.data(), static_cast<std::size_t>(count)}, in_a_minute());
        } catch (const net::ClosedError&) {
          return;
        }
      }
    }
  }

  static constexpr int kPollMs = 60'000;

  const Fd listener_;
  const std::string to_;
  const std::vector<std::size_t> limits_;
  const std::jthread thread_;
};

// It was the oldest of too many at each step of its handshake; a member introduces itself in the same way.
TEST_F(ServiceClientsTest, AClientWhoseConnectionIsClosedBeforeItWasHeardConnectsAgain) {
  const Echo service(secret_, {busy_});
  const Relay relay(quiet_, busy_, {0, 1, sizeof(net::Hello), sizeof(net::Hello) + sizeof(net::Claim)});
  expect_welcome(quiet_);
}

struct Welcomed {
  Welcomed(const std::string& address, const net::Secret& secret, net::SetupClock::time_point deadline)
      : link({"reach the service at", address}, secret, deadline) {
    EXPECT_EQ(link.receive(deadline), "welcome");
  }

  service::ServiceLink link;
};

TEST_F(ServiceClientsTest, AnEntryThatDoesNotAnswerLeavesTheNextOneItsTime) {
  const Fd silent = net::listen_on(quiet_);  // as of a process that is stopped
  const Echo service(secret_, {busy_});
  const std::vector<std::string> entries{quiet_, busy_};
  const auto deadline = net::SetupClock::now() + std::chrono::seconds(4);
  const auto found =
      service::link_to_any<Welcomed>(entries, secret_, deadline, {"reach", "a service", "there is none", "start one"});
  EXPECT_EQ(found->link.what().address, busy_);
}

// Also between hosts, where an attempt to connect is repeated as long as it has time.
TEST_F(ServiceClientsTest, AnEntryWhereNothingListensIsGivenUpAtOnce) {
  const auto address = [] { return net::bound_address(net::listen_on("127.0.0.1:0"), "127.0.0.1:0"); };
  const std::vector<std::string> entries{address()};
  const auto deadline = net::SetupClock::now() + std::chrono::hours(1);
  EXPECT_THROW((void)service::link_to_any<Welcomed>(entries, secret_, deadline,
                                                    {"reach", "a service", "there is none", "start one"}),
               Error);
}

// It gets a part of the time at first, and a later attempt reaches it.
TEST_F(ServiceClientsTest, AnEntryThatHangsOnceIsTriedAgain) {
  const Echo service(secret_, {busy_});
  const Relay relay(quiet_, busy_, {Relay::kHangs});
  const std::vector<std::string> entries{quiet_};
  const auto found = service::link_to_any<Welcomed>(entries, secret_, in_a_minute(),
                                                    {"reach", "a service", "there is none", "start one"});
  EXPECT_EQ(found->link.what().address, quiet_);
}

// A client that comes while no descriptor is free is let in when there is one; others are served meanwhile.
TEST_F(ServiceClientsTest, AClientWaitsForADescriptor) {
  const test::Shared<std::atomic<int>> step;
  const auto wait_for = [&step](int wanted) {
    EXPECT_TRUE(test::eventually([&] { return step->load() >= wanted; })) << wanted;
  };
  test::Fleet fleet(2, [&](test::Member& me) {
    if (me.index() == 0) {
      const Echo service(secret_, {busy_});
      *step = 1;
      wait_for(2);
      rlimit few{};
      const Fd last(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      few.rlim_cur = few.rlim_max = static_cast<rlim_t>(last.get()) + 16;
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
      std::vector<Fd> taken;
      while (Fd file{::dup(last.get())}) taken.push_back(std::move(file));
      *step = 3;
      wait_for(4);
      taken.clear();
      wait_for(5);
    } else {
      wait_for(1);
      service::ServiceLink known({"reach the service at", busy_}, secret_, in_a_minute());
      EXPECT_EQ(known.receive(in_a_minute()), "welcome");
      *step = 2;
      wait_for(3);
      const Fd waiting = net::connect_to(busy_, in_a_minute());
      for (int i = 0; i < 20; ++i) {
        known.send("meanwhile", in_a_minute());
        EXPECT_EQ(known.receive(in_a_minute()), "meanwhile");
      }
      *step = 4;
      expect_welcome(busy_);
      *step = 5;
    }
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::team
