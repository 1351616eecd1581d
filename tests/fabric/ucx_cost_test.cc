// What the UCX engine holds and burns, and what it leaves behind.
#include <csignal>
#include <ctime>
#include <thread>

#include <gtest/gtest.h>

#include "tests/fabric/ucx_node.h"
#include "tests/support/descriptors.h"

namespace farside::test {
namespace {

// What member 0 does `times` must leave no descriptor open in either process: each leak would be one for each time. A
// few more or less is UCX's own coming and going.
template <class Act>
void expect_no_descriptor_left(Member& me, std::size_t times, Act&& act) {
  if (me.index() == 0) act();
  me.barrier();
  const std::size_t before = open_descriptors();
  for (std::size_t i = 0; i < times && me.index() == 0; ++i) act();
  me.barrier();
  EXPECT_TRUE(eventually([&] { return open_descriptors() < before + times / 2; }))
      << before << " " << open_descriptors();
  me.barrier();
}

// Connections are closed on both sides when a channel goes.
TEST(UcxEngine, ChannelsThatCameAndWentLeaveNoDescriptors) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    expect_no_descriptor_left(me, 100, [&] {
      node.channel = node.engine->open_channel();
      std::uint64_t value = 1;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
    });
  });
  fleet.expect_success();
}

// Nor do endpoints that time-outs closed.
TEST(UcxEngine, TimeOutsLeaveNoDescriptors) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const pid_t target = std::stoi(me.exchange(std::to_string(::getpid()))[1]);
    expect_no_descriptor_left(me, 30, [&] {
      std::uint64_t value = 1;
      ASSERT_EQ(node.read(1, 0, &value, 8), Outcome::done);
      stop(target);
      ASSERT_EQ(node.read(1, 0, &value, 8, in(5ms)), Outcome::timed_out);
      ASSERT_EQ(::kill(target, SIGCONT), 0);
    });
  });
  fleet.expect_success();
}

// With two cores and eight processes, no process may burn a core while nothing happens.
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
  const auto before = shared_memory_files();
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
  EXPECT_EQ(shared_memory_files(), before);
}

}  // namespace
}  // namespace farside::test
