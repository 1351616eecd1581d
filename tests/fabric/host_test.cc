// The host fabric's own parts, where the interface does not show what they must guarantee.
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/fabric/fabric.h"

#include "fabric/clock.h"
#include "fabric/host/process.h"
#include "fabric/host/region_header.h"
#include "tests/support/fleet.h"

namespace farside::test {
namespace {

using namespace std::chrono_literals;

// Sleeping on a ticket ends by a wake-up that came after it was taken, before the sleep as well as during it.
// Else it ends after ten minutes.
TEST(Sleeper, IsWokenByWhatComesAfterItsTicket) {
  const Time start = monotonic_now();
  RegionHeader header{};
  const Sleeper sleeper(header);
  const std::uint32_t early = sleeper.ticket();
  wake_sleepers(header);
  sleeper.sleep(early, 10min);

  const std::uint32_t ticket = sleeper.ticket();
  std::thread waker([&] {
    std::this_thread::sleep_for(20ms);
    wake_sleepers(header);
  });
  sleeper.sleep(ticket, 10min);
  waker.join();
  EXPECT_LT(monotonic_now() - start, 5min);
}

// A writer to whom nobody listens must not pay for a system call.
TEST(Sleeper, IsNotAnnouncedToWhenNobodySleeps) {
  RegionHeader header{};
  wake_sleepers(header);
  EXPECT_EQ(header.sequence, 0U);
  { const Sleeper sleeper(header); }
  wake_sleepers(header);
  EXPECT_EQ(header.sequence, 0U);
}

// The kernel gives a pid to somebody else once its process is gone, and a stranger must not be killed for it.
TEST(Process, IsNotKilledForAnotherThatHadItsPid) {
  Fleet fleet(1, [](Member& me) {
    me.barrier();
    ::pause();
  });
  const ProcessId predecessor{fleet.pid(0), 1};
  EXPECT_EQ(kill_and_wait(predecessor, {monotonic_now() + 10s}), Outcome::done);
  EXPECT_EQ(::kill(fleet.pid(0), 0), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(fleet.pid(0), &status, WNOHANG), 0) << "still running";
}

TEST(Process, IsDeadWhenItsKillingReturned) {
  const Shared<std::atomic<std::uint64_t>> start_ticks;
  Fleet fleet(1, [&](Member&) {
    *start_ticks = this_process().start_ticks;
    for (;;) ::pause();
  });
  ASSERT_TRUE(eventually([&] { return *start_ticks != 0; }));
  const ProcessId process{fleet.pid(0), *start_ticks};
  EXPECT_EQ(kill_and_wait(process, {monotonic_now() + 60s}), Outcome::done);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(fleet.pid(0)), &ended, WEXITED | WNOHANG | WNOWAIT), 0);
  EXPECT_EQ(ended.si_pid, fleet.pid(0)) << "still running";
  EXPECT_EQ(kill_and_wait(process, {monotonic_now() + 60s}), Outcome::done) << "dead, but not waited for";
  EXPECT_EQ(WTERMSIG(fleet.wait(0)), SIGKILL);
  EXPECT_EQ(kill_and_wait(process, {monotonic_now() + 60s}), Outcome::done) << "gone";
}

// The handle of a region that is gone must not lead to whatever took its descriptor's number.
TEST(DirectAccess, IsRefusedToARegionThatIsGone) {
  const std::unique_ptr<Fabric> fabric = make_host_fabric({.mode = FabricMode::direct});
  fabric->connect(0, fabric->address());
  std::unique_ptr<Region> region = fabric->create_region("first", 4096);
  const std::string handle = region->handle();
  region.reset();
  EXPECT_THROW((void)fabric->attach(0, handle), Error);
  region = fabric->create_region("second", 4096);
  EXPECT_THROW((void)fabric->attach(0, handle), Error);
}

}  // namespace
}  // namespace farside::test
