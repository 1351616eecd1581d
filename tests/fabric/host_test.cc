// The host fabric's own parts, where the interface does not show what they must guarantee.
#include "farside/fabric/host.h"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/fabric/fabric.h"

#include "fabric/clock.h"
#include "fabric/host/process.h"
#include "fabric/host/region_header.h"
#include "tests/support/mesh.h"

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

// A writer that no thread listens to must not pay for a system call.
TEST(Sleeper, IsNotAnnouncedToWhenNoThreadSleeps) {
  RegionHeader header{};
  wake_sleepers(header);
  EXPECT_EQ(header.sequence, 0U);
  { const Sleeper sleeper(header); }
  wake_sleepers(header);
  EXPECT_EQ(header.sequence, 0U);
}

// The kernel may give the pid of a process that has ended to another process, which must not be killed instead.
TEST(Process, IsNotKilledForAnotherThatHadItsPid) {
  Fleet fleet(1, [](Member& me) {
    me.barrier();
    ::pause();
  });
  const ProcessId predecessor{fleet.pid(0), 1};
  EXPECT_EQ(kill_and_wait(predecessor, "it is a test", {monotonic_now() + 10s}), Outcome::done);
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
  EXPECT_EQ(kill_and_wait(process, "it is a test", {monotonic_now() + 60s}), Outcome::done);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(fleet.pid(0)), &ended, WEXITED | WNOHANG | WNOWAIT), 0);
  EXPECT_EQ(ended.si_pid, fleet.pid(0)) << "still running";
  EXPECT_EQ(kill_and_wait(process, "it is a test", {monotonic_now() + 60s}), Outcome::done)
      << "dead, but not waited for";
  EXPECT_EQ(WTERMSIG(fleet.wait(0)), SIGKILL);
  EXPECT_EQ(kill_and_wait(process, "it is a test", {monotonic_now() + 60s}), Outcome::done) << "gone";
}

/// A process that lives until it is killed, as its peers know it.
class Living {
 public:
  explicit Living(const std::function<void()>& body =
                      [] {
                        for (;;) ::pause();
                      })
      : fleet_(1, [this, &body](Member&) {
          *start_ticks_ = this_process().start_ticks;
          body();
        }) {
    EXPECT_TRUE(eventually([&] { return *start_ticks_ != 0; }));
  }

  [[nodiscard]] ProcessId id() const { return {fleet_.pid(0), *start_ticks_}; }
  [[nodiscard]] bool lives() const {
    return !::waitid(P_PID, pid(), &end_, WEXITED | WNOHANG | WNOWAIT) && !end_.si_pid;
  }
  [[nodiscard]] id_t pid() const { return static_cast<id_t>(fleet_.pid(0)); }

 private:
  Shared<std::atomic<std::uint64_t>> start_ticks_;
  Fleet fleet_;
  mutable siginfo_t end_{};
};

/// In a process of its own that may open `spare` more descriptors, and no others.
void with_descriptors(unsigned spare, const std::function<void()>& body) {
  Fleet fleet(1, [&](Member&) {
    std::vector<Fd> held;
    for (unsigned i = 0; i < spare; ++i) held.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Fd last(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit none{static_cast<rlim_t>(last.get()) + 1, static_cast<rlim_t>(last.get()) + 1};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    held.clear();
    body();
  });
  fleet.expect_success();
}

// The undefined-behaviour sanitizer needs a descriptor for each check of a type.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitizerTakesDescriptors = true;
#else
constexpr bool kSanitizerTakesDescriptors = false;
#endif

// A process without a free descriptor cannot look at another: it must not take it for dead. With two it can.
TEST(Process, IsNotTakenForDeadForWantOfDescriptors) {
  if (kSanitizerTakesDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors itself";
  for (const unsigned spare : {0U, 1U}) {
    const Living process;
    with_descriptors(spare, [&] {
      EXPECT_THROW((void)open_process(process.id()), Error) << spare;
      EXPECT_EQ(kill_and_wait(process.id(), "it is a test", {monotonic_now() + 50ms}), Outcome::timed_out) << spare;
    });
    EXPECT_TRUE(process.lives());
  }
  const Living process;
  with_descriptors(
      2, [&] { EXPECT_EQ(kill_and_wait(process.id(), "it is a test", {monotonic_now() + 60s}), Outcome::done); });
  EXPECT_FALSE(process.lives());
}

// Want of descriptors may pass, and then a process that waits for it kills after all.
TEST(Process, IsKilledOnceADescriptorIsFree) {
  if (kSanitizerTakesDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors itself";
  const Living process;
  with_descriptors(2, [&] {
    std::vector<Fd> held;
    held.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    std::thread freed([&] {
      std::this_thread::sleep_for(50ms);
      held.clear();
    });
    EXPECT_EQ(kill_and_wait(process.id(), "it is a test", {monotonic_now() + 60s}), Outcome::done);
    freed.join();
  });
  EXPECT_FALSE(process.lives());
}

// A container may show no processes of others, or none at all.
TEST(Process, IsNotTakenForDeadWhereProcDoesNotShowIt) {
  const Living process;
  const Shared<std::atomic<bool>> may_mount;
  Fleet fleet(1, [&](Member&) {
    *may_mount = ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/proc", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                 ::mount("none", "/proc", "tmpfs", 0, nullptr) == 0;
    if (!*may_mount) return;
    EXPECT_THROW((void)open_process(process.id()), Error);
    EXPECT_EQ(kill_and_wait(process.id(), "it is a test", {monotonic_now() + 50ms}), Outcome::timed_out);
  });
  fleet.expect_success();
  if (!*may_mount) GTEST_SKIP() << "no right to mount here";
  EXPECT_TRUE(process.lives());
}

// By its stat a process is a zombie when its first thread has ended; the others go on to store.
TEST(Process, IsNotDeadWhileAThreadOfItRuns) {
  const Living process([] {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // of this thread alone
  });
  const Fd pidfd = open_process(process.id());
  ASSERT_TRUE(pidfd);
  EXPECT_EQ(kill_and_wait(process.id(), "it is a test", {monotonic_now() + 60s}), Outcome::done);
  EXPECT_FALSE(process.lives());
}

TEST(Process, IsKilledWhileADebuggerHoldsIt) {
  const Living process([] {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    for (;;) ::raise(SIGSTOP);
  });
  siginfo_t stop{};
  ASSERT_EQ(::waitid(P_PID, process.pid(), &stop, WSTOPPED), 0);
  EXPECT_EQ(stop.si_code, CLD_TRAPPED);
  EXPECT_EQ(kill_and_wait(process.id(), "it is a test", {monotonic_now() + 60s}), Outcome::done);
  EXPECT_FALSE(process.lives());
}

// Once a process is gone and waited for, its pid may still name the group that it led. No process has it then.
TEST(Process, IsDeadThoughItsGroupLivesOn) {
  const Shared<std::atomic<std::uint64_t>> start_ticks;
  Fleet fleet(1, [&](Member&) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);
      *start_ticks = this_process().start_ticks;
      if (::fork() == 0) {
        for (;;) ::pause();
      }
      ::_exit(0);
    }
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(kill_and_wait({child, *start_ticks}, "it is a test", {monotonic_now() + 10s}), Outcome::done);
    EXPECT_EQ(::kill(-child, SIGKILL), 0) << "the group is there";
  });
  fleet.expect_success();
}

// A pid that the kernel gave to a thread is not a process's.
TEST(Process, IsDeadWhenItsPidIsAThreads) {
  std::atomic<pid_t> id = 0;
  std::atomic<bool> over = false;
  std::thread thread([&] {
    id = ::gettid();
    over.wait(false);
  });
  ASSERT_TRUE(eventually([&] { return id != 0; }));
  EXPECT_EQ(kill_and_wait({id, 1}, "it is a test", {monotonic_now() + 10s}), Outcome::done);
  over = true;
  over.notify_all();
  thread.join();
}

bool waits_for_end(const Fd& pidfd) {
  pollfd event{pidfd.get(), POLLIN, 0};
  return ::poll(&event, 1, 60'000) == 1;
}

// A process that was killed has children that live on: what it had mapped of its peers must not be theirs.
// A core of one process would have the memory of all its peers.
TEST(DirectAccess, IsNotInCores) {
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto place = reinterpret_cast<std::uintptr_t>(mesh.at(1 - me.index()).mapped());
    std::ifstream table("/proc/self/smaps");
    bool is_it = false;
    int found = 0;
    for (std::string line; std::getline(table, line);) {
      std::uintptr_t begin = 0;
      std::uintptr_t end = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) is_it = begin <= place && place < end;
      if (!is_it || !line.starts_with("VmFlags:")) continue;
      EXPECT_NE((line + ' ').find(" dd "), std::string::npos) << line;
      ++found;
    }
    EXPECT_EQ(found, 1);
    me.barrier();
  });
  fleet.expect_success();
}

TEST(DirectAccess, OfAKilledProcessIsNotItsChilds) {
  const Shared<std::atomic<pid_t>> child;
  const Shared<std::atomic<bool>> parent_is_dead;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    ASSERT_NE(mesh.at(0).mapped(), nullptr);
    if (me.index() == 1) {
      if (const pid_t forked = ::fork(); forked != 0) {
        *child = forked;
        for (;;) ::pause();
      }
      ::signal(SIGSEGV, SIG_DFL);
      (void)eventually([&] { return parent_is_dead->load(); });
      *reinterpret_cast<volatile std::uint64_t*>(mesh.at(0).mapped()) = 666;
      ::_exit(0);
    }
    ASSERT_TRUE(eventually([&] { return *child != 0; }));
    const Fd child_pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child->load(), 0)));
    ASSERT_EQ(mesh.fabric->revoke(1, mesh.deadline()), Outcome::done);
    *parent_is_dead = true;
    EXPECT_TRUE(waits_for_end(child_pidfd));
    EXPECT_EQ(mesh.local->word<ControlWord>(0).load(), 0U);
  });
  EXPECT_EQ(fleet.wait(0), 0);
}

// Programs that map a region for reading get a descriptor, which the kernel lets them open anew for writing if the
// file's mode does. Another user's must not; one of the same user could reach the owner's own descriptor as well.
TEST(RegionFile, IsOpenedForWritingByItsUserAlone) {
  const std::unique_ptr<Fabric> fabric = make_host_fabric({.mode = FabricMode::direct});
  const std::unique_ptr<Region> region = fabric->create_region("read", 4096);
  const RegionFile file = open_region_file(*region);
  struct stat status {};
  ASSERT_EQ(::fstat(file.read_only.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  if (::geteuid() != 0) return;
  Fleet fleet(1, [&](Member&) {
    constexpr uid_t kAnother = 65534;
    ASSERT_EQ(::setresuid(kAnother, kAnother, kAnother), 0);
    ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);  // so that it may look at its own descriptors
    const std::string path = "/proc/self/fd/" + std::to_string(file.read_only.get());
    EXPECT_LT(::open(path.c_str(), O_RDWR | O_CLOEXEC), 0);
    EXPECT_EQ(errno, EACCES);
  });
  fleet.expect_success();
}

// Why a region's file is not sealed against writers: its peers, which come at any time, could not map it either.
TEST(RegionFile, SealedAgainstFutureWritesKeepsNewPeersOut) {
  const Fd file = make_memfd("sealed", 4096);
  const Mapping owners(file, 4096, Mapping::Access::read_write);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  *owners.base() = std::byte{1};
  EXPECT_THROW((void)Mapping(file, 4096, Mapping::Access::read_write), Error);
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

// A store is visible at once. What a signal has followed was seen by its peer, and is not told of as lost.
TEST(DirectAccess, LosesNothingThatASignalHasFollowed) {
  const std::unique_ptr<Fabric> fabric = make_host_fabric({.mode = FabricMode::direct});
  fabric->connect(0, fabric->address());
  const std::unique_ptr<Region> region = fabric->create_region("signalled", 4096);
  const std::unique_ptr<RemoteRegion> remote = fabric->attach(0, region->handle());
  const std::unique_ptr<Channel> channel = fabric->open_channel();
  const Deadline deadline = fabric->in(1min);
  std::uint64_t word = 1;
  EXPECT_EQ(channel->write(remote->span(0, 8), LocalSpan(word), deadline), Outcome::done);
  EXPECT_EQ(channel->write_signal(remote->word<ControlWord>(8), 1, deadline), Outcome::done);
  fabric->mark_lost(0);
  fabric->connect(0, fabric->address());
  EXPECT_EQ(channel->fence(0, deadline), Outcome::done);
  EXPECT_EQ(channel->flush(0, deadline), Outcome::done);
}

}  // namespace
}  // namespace farside::test
