#include <atomic>
#include <chrono>
#include <ctime>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "kv/service/system_time.h"
#include "tests/kv/server/store_fixture.h"

namespace {
std::atomic<std::int64_t> seconds_set_ahead{0};
}

// In place of the C library's: the system's clock after an administrator set it.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += seconds_set_ahead;
  return result;
}

namespace farside::kv::test {
namespace {

using namespace std::chrono_literals;

// Two servers whose clocks were set right since they started expire the same key at the same moment.
TEST(StoreWithExpiry, FollowsTheSystemsClockWhenThatIsSet) {
  StoreUnderTest under_test({.bytes = 1U << 20U, .wall = kSystemTime});
  const std::uint64_t in_an_hour = kSystemTime.now_ns(under_test.fabric()) + std::uint64_t{3600} * 1'000'000'000;
  const auto put_new = [&](std::uint64_t time) {
    return under_test.store().put(under_test.at(time), {"a", "1", in_an_hour, false, Timestamp{}}).answer;
  };
  ASSERT_EQ(put_new(10), Answer::done);
  ASSERT_EQ(put_new(11), Answer::differs) << "the key is there";
  seconds_set_ahead = std::chrono::seconds(2h).count();
  EXPECT_EQ(put_new(12), Answer::done) << "the key has expired";
  seconds_set_ahead = 0;
}

}  // namespace
}  // namespace farside::kv::test
