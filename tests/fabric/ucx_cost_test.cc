// What the UCX engine holds and burns, and what it leaves behind.
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "tests/fabric/ucx_node.h"

namespace farside::test {
namespace {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Connections are closed on both sides when a channel goes.
TEST(UcxEngine, ChannelsThatCameAndWentLeaveNoDescriptors) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const auto visit = [&] {
      node.channel = node.engine->open_channel();
      std::uint64_t value = 1;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
    };
    if (me.index() == 0) visit();
    me.barrier();
    const std::size_t before = open_descriptors();
    constexpr int kVisits = 100;
    for (int i = 0; i < kVisits && me.index() == 0; ++i) visit();
    me.barrier();
    // A few more or less is UCX's own coming and going; a leak is one for each visit.
    EXPECT_TRUE(eventually([&] { return open_descriptors() < before + kVisits / 2; }))
        << before << " " << open_descriptors();
    me.barrier();
  });
  fleet.expect_success();
}

// Nor do endpoints that time-outs closed.
TEST(UcxEngine, TimeOutsLeaveNoDescriptors) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const auto pids = me.exchange(std::to_string(::getpid()));
    const auto time_out = [&] {
      std::uint64_t value = 1;
      const pid_t target = std::stoi(pids[1]);
      ASSERT_EQ(node.read(1, 0, &value, 8), Outcome::done);
      stop(target);
      ASSERT_EQ(node.read(1, 0, &value, 8, in(5ms)), Outcome::timed_out);
      ASSERT_EQ(::kill(target, SIGCONT), 0);
    };
    if (me.index() == 0) time_out();
    me.barrier();
    const std::size_t before = open_descriptors();
    constexpr int kTimeOuts = 30;
    for (int i = 0; i < kTimeOuts && me.index() == 0; ++i) time_out();
    me.barrier();
    EXPECT_TRUE(eventually([&] { return open_descriptors() < before + kTimeOuts / 2; }))
        << before << " " << open_descriptors();
    me.barrier();
  });
  fleet.expect_success();
}

// With two cores and eight processes, nobody may burn one while nothing happens.
TEST(UcxEngine, IdleEngineUsesNoCpu) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 1;
    ASSERT_EQ(node.write(1 - me.index(), 0, &value, 8), Outcome::done);
    me.barrier();
    std::this_thread::sleep_for(200ms);
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(2s);
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 20);
    me.barrier();
  });
  fleet.expect_success();
}

// Files in /dev/shm would outlive a killed process.
TEST(UcxEngine, KilledProcessLeavesNoSharedMemoryBehind) {
  const auto files = [] {
    const std::filesystem::directory_iterator all("/dev/shm");
    return std::distance(begin(all), end(all));
  };
  const auto before = files();
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 1;
    ASSERT_EQ(node.write(1 - me.index(), 0, &value, 8), Outcome::done);
    me.barrier();
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(fleet.wait(0)));
  EXPECT_TRUE(WIFSIGNALED(fleet.wait(1)));
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace farside::test
