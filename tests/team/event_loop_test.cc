// The loop that all sockets of a process are served by.
#include "net/event_loop.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "net/listener.h"
#include "net/socket.h"
#include "tests/support/descriptors.h"
#include "tests/support/shared.h"

namespace farside::team {
namespace {

using namespace std::chrono_literals;

// Both have happened when the loop looks: the task that takes the timer back, and then the end of its time.
TEST(AnEventLoop, DoesNothingForATimerThatIsTakenBackAsItRunsOut) {
  constexpr int kRounds = 20;
  std::atomic<int> rounds = 0;
  net::EventLoop loop;
  for (int round = 0; round < kRounds; ++round) {
    loop.post([&] {
      loop.tick(1ms, [] {});
      loop.post([&] {
        loop.tick(0ms, {});
        ++rounds;
      });
      std::this_thread::sleep_for(5ms);
    });
  }
  EXPECT_TRUE(test::eventually([&] { return rounds == kRounds; }));
  loop.stop();
}

// A process without a free descriptor spends nothing on a client that it cannot accept, and serves the others; once it
// has accepted one, the next shortage is taken for a short one again.
TEST(AnEventLoop, RestsLongerEachTimeUntilItAccepts) {
  constexpr std::size_t kAttempts = 4;
  const net::Listener listener("127.0.0.1:0");
  const Fd first = net::connect_to(listener.address(), net::SetupClock::now() + 60s);
  const Fd second = net::connect_to(listener.address(), net::SetupClock::now() + 60s);
  std::optional<test::NoDescriptorIsFree> shortage;
  std::vector<std::chrono::milliseconds> pauses;
  std::size_t others_served = 0;
  std::atomic<bool> is_over = false;
  const auto accept = [&](net::EventLoop& loop) {
    EXPECT_EQ(others_served, pauses.size());
    const Fd accepted(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted) return void(shortage.emplace());
    EXPECT_EQ(errno, EMFILE);
    pauses.push_back(loop.rest(listener.fd()));
    loop.post([&] { ++others_served; });
    if (pauses.size() == kAttempts) shortage.reset();
    if (pauses.size() > kAttempts) is_over = true;
  };
  {
    net::EventLoop loop;
    shortage.emplace();
    loop.post([&] { loop.watch(listener.fd(), EPOLLIN, [&](std::uint32_t) { accept(loop); }); });
    EXPECT_TRUE(test::eventually([&] { return is_over.load(); }));
  }
  EXPECT_EQ(pauses, (std::vector<std::chrono::milliseconds>{20ms, 40ms, 80ms, 160ms, 20ms}));
}

}  // namespace
}  // namespace farside::team
