// The steps of a command share its time: together they take no longer than --timeout.
#include "cli/command_time.h"

#include <chrono>

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

}  // namespace
}  // namespace farside::cli
