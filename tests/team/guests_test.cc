// A service and clients that connect without a word: its own clients are let in.
#include "team/guests.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "team/guest_link.h"
#include "team/runtime_dir.h"
#include "tests/support/fleet.h"
#include "tests/support/shared.h"

namespace farside {
namespace {

constexpr std::size_t kMoreThanWait = 200;

SetupClock::time_point in_a_minute() { return SetupClock::now() + std::chrono::seconds(60); }

/// Says "welcome", and what it is told.
class Echo final : public Guests::Host {
 public:
  Echo(const Secret& secret, const std::vector<std::string>& addresses) : guests_(loop_, secret, *this, addresses) {}
  ~Echo() override { loop_.stop(); }

  std::string welcome() override { return "welcome"; }
  Guests::Refusal obey(Guests::Number guest, const std::string& message) override {
    guests_.say(guest, message);
    return {};
  }
  [[nodiscard]] std::string refusal(const std::string& reason) const override { return reason; }
  void part(Guests::Number /*guest*/) override {}

 private:
  EventLoop loop_;
  Guests guests_;
};

class GuestsTest : public testing::Test {
 protected:
  void expect_welcome(const std::string& address) const {
    GuestLink link({"reach the service at", address}, secret_, in_a_minute());
    EXPECT_EQ(link.receive(in_a_minute()), "welcome");
    link.send("echo", in_a_minute());
    EXPECT_EQ(link.receive(in_a_minute()), "echo");
  }

  JobDir dir_;
  Secret secret_ = Secret::create(dir_.path() / "secret");
  std::string busy_ = dir_.path() / "busy";
  std::string quiet_ = dir_.path() / "quiet";
};

// The oldest connections that have proven nothing make room, and those of one listener cost the other nothing.
TEST_F(GuestsTest, IdleConnectionsKeepNoClientOut) {
  const Echo service(secret_, {busy_, quiet_});
  const Fd idle = connect_to(quiet_, in_a_minute());
  GuestLink known({"reach the service at", busy_}, secret_, in_a_minute());
  EXPECT_EQ(known.receive(in_a_minute()), "welcome");
  std::vector<Fd> crowd;
  for (std::size_t i = 0; i < kMoreThanWait; ++i) crowd.push_back(connect_to(busy_, in_a_minute()));
  expect_welcome(busy_);
  expect_welcome(quiet_);
  known.send("still there", in_a_minute());
  EXPECT_EQ(known.receive(in_a_minute()), "still there");
  char byte = 0;
  EXPECT_EQ(::recv(idle.get(), &byte, 1, MSG_DONTWAIT), -1) << "it was closed for those of another listener";
  EXPECT_EQ(::recv(crowd.front().get(), &byte, 1, 0), 0) << "the oldest was not closed";
}

// A client that comes while no descriptor is free is let in when there is one; others are served meanwhile.
TEST_F(GuestsTest, AClientWaitsForADescriptor) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs a descriptor for each check of a type";
#endif
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
      GuestLink known({"reach the service at", busy_}, secret_, in_a_minute());
      EXPECT_EQ(known.receive(in_a_minute()), "welcome");
      *step = 2;
      wait_for(3);
      const Fd waiting = connect_to(busy_, in_a_minute());
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
}  // namespace farside
