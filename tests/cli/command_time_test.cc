// The steps of a command share its time: together they take no longer than --timeout.
#include "cli/command_time.h"

#include <chrono>
#include <memory>

#include <gtest/gtest.h>

namespace farside::cli {
namespace {

using namespace std::chrono_literals;

CommandTime::Clock::time_point now{1h};

TEST(CommandTime, IsSharedByTheSteps) {
  const CommandTime time(10s, [] { return now; });
  EXPECT_EQ(time.limit(), 10s);
  EXPECT_EQ(time.left(), 10s);
  now += 4s;
  EXPECT_EQ(time.left(), 6s);
  now += 500us;
  EXPECT_EQ(time.left(), 5999ms) << "what is left is never rounded up";
  now += 6s;
  EXPECT_EQ(time.left(), 1ms) << "a step without a time-out would not end";
  EXPECT_EQ(time.limit(), 10s);
}

/// Takes four seconds to open a session, which is told its time-out afterwards.
struct SlowClient {
  struct Options {
    std::chrono::milliseconds time_out{};
  };
  struct Session {
    void set_time_out(std::chrono::milliseconds to) { time_out = to; }
    std::chrono::milliseconds time_out{};
  };

  std::unique_ptr<Session> open_session(const Options& options) {
    given = options.time_out;
    now += 4s;
    return std::make_unique<Session>();
  }
  std::chrono::milliseconds given{};
};

// To find the servers, to open the session and to make its call: none has more than the ones before have left.
TEST(CommandTime, IsNotExceededByTheStepsOfACommand) {
  const CommandTime time(10s, [] { return now; });
  now += 1s;
  SlowClient client;
  const auto session = open_session_within(time, client, SlowClient::Options{});
  EXPECT_EQ(client.given, 9s);
  EXPECT_EQ(session->time_out, 5s);
}

}  // namespace
}  // namespace farside::cli
