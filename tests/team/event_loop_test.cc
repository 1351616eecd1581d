// The loop that all sockets of a process are served by.
#include "net/event_loop.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace farside::team
