// Processes that outlive their launcher, and the next launcher that adopts them.
#include "team/launcher.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/runtime_dir.h"
#include "tests/support/shared.h"

namespace farside::team {
namespace {

using test::eventually;
using testing::ElementsAre;

bool has_ended(const Fd& pidfd, int timeout_ms) {
  pollfd event{pidfd.get(), POLLIN, 0};
  return ::poll(&event, 1, timeout_ms) > 0;
}

class OutlivingRanks : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file(Rank rank) const { return dir_.path() / std::to_string(rank); }
  [[nodiscard]] LaunchPlan plan() const {
    return {.command = {"sleep", "1000"},
            .ranks = 2,
            .environment = {},
            .claim = [this](Rank rank) { return Fd(::open(file(rank).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); },
            .end_all_on_failure = false};
  }
  /// The ranks of a launcher that was killed.
  std::vector<AdoptedProcess> orphans() {
    const pid_t launcher = ::fork();
    if (launcher == 0) {
      Launcher(plan()).wait();
      ::_exit(0);
    }
    std::vector<AdoptedProcess> found;
    for (Rank rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(eventually([&] { return pid_in(rank) != 0; }));
      found.push_back({rank, pid_in(rank), open(pid_in(rank))});
    }
    ::kill(launcher, SIGKILL);
    ::waitpid(launcher, nullptr, 0);
    return found;
  }
  [[nodiscard]] static Fd open(pid_t pid) { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }
  [[nodiscard]] pid_t pid_in(Rank rank) const {
    const Fd opened(::open(file(rank).c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, kPidBytes> text{};
    if (!opened || ::pread(opened.get(), text.data(), text.size(), 0) != std::ssize(text)) return 0;
    pid_t pid = 0;
    std::from_chars(text.data(), text.data() + text.size(), pid);
    return pid;
  }
  void TearDown() override {
    for (Rank rank = 0; rank < 2; ++rank) {
      if (const pid_t pid = pid_in(rank); pid != 0) ::kill(pid, SIGKILL);
    }
  }

  net::JobDir dir_;
};

TEST_F(OutlivingRanks, GoOnWithoutTheLauncherAndItsTerminal) {
  for (const AdoptedProcess& orphan : orphans()) {
    EXPECT_FALSE(has_ended(orphan.pidfd, 100));
    EXPECT_EQ(::getsid(orphan.pid), orphan.pid);
  }
}

TEST_F(OutlivingRanks, AreWatchedByTheLauncherThatAdoptsThem) {
  std::vector<AdoptedProcess> adopted = orphans();
  const pid_t first = adopted.front().pid;
  const pid_t second = adopted.back().pid;
  std::vector<Rank> deaths;
  LaunchPlan again = plan();
  again.on_death = [&deaths](Rank rank) { deaths.push_back(rank); };
  Launcher launcher(std::move(again), std::move(adopted));
  EXPECT_EQ(launcher.pid(0), first);
  EXPECT_EQ(launcher.pid(1), second);
  ::kill(second, SIGKILL);
  ::kill(first, SIGSTOP);  // in an order
  const auto end = [&] {
    const pid_t killer = ::fork();
    if (killer == 0) {
      ::usleep(200'000);
      ::kill(first, SIGKILL);
      ::_exit(0);
    }
    return launcher.wait();
  }();
  EXPECT_THAT(deaths, ElementsAre(1, 0));
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.failures,
              ElementsAre("rank 1 ended, and no process was told how", "rank 0 ended, and no process was told how"));
}

// One that hangs is killed after a while: it would outlive its launcher, and no process would end it.
TEST_F(OutlivingRanks, EndWhenTheyAreAskedToAlthoughOneHangs) {
  Launcher launcher(plan());
  ::kill(launcher.pid(0), SIGSTOP);
  ::waitpid(launcher.pid(0), nullptr, WUNTRACED);  // a SIGTERM that came with it would be first
  ::raise(SIGTERM);                                // which the launcher has blocked, and takes
  const JobEnd end = launcher.wait();
  EXPECT_TRUE(end.was_asked);
  EXPECT_THAT(end.failures, ElementsAre(testing::HasSubstr("rank 1"), testing::HasSubstr("rank 0")));
}

// Those that died while there was no launcher are started, and the ones that die later started again.
TEST_F(OutlivingRanks, AreStartedAgain) {
  std::vector<AdoptedProcess> adopted = orphans();
  const pid_t first = adopted.front().pid;
  ::kill(adopted.back().pid, SIGKILL);
  ASSERT_TRUE(has_ended(adopted.back().pidfd, 60'000));
  adopted.pop_back();
  LaunchPlan again = plan();
  again.restart = RestartPolicy{
      .most_in_a_row = 8, .first_pause = std::chrono::milliseconds(1), .longest_pause = std::chrono::milliseconds(1)};
  std::vector<Rank> restarted;
  again.on_restart = [&](Rank rank, pid_t /*pid*/) {
    restarted.push_back(rank);
    ::raise(SIGTERM);  // held for the launcher, which passes it on
  };
  Launcher launcher(std::move(again), std::move(adopted));
  EXPECT_NE(launcher.pid(1), 0);
  EXPECT_EQ(pid_in(1), launcher.pid(1));
  ::kill(first, SIGKILL);
  const JobEnd end = launcher.wait();
  EXPECT_TRUE(end.was_asked);
  EXPECT_THAT(restarted, ElementsAre(0));
  EXPECT_NE(pid_in(0), first);
}

// It failed to take them over, perhaps.
TEST_F(OutlivingRanks, AreLeftByALauncherThatGivesUp) {
  std::vector<AdoptedProcess> adopted = orphans();
  const Fd left = open(adopted.front().pid);
  ::kill(adopted.back().pid, SIGKILL);
  adopted.pop_back();
  const Fd started = [&] {
    const Launcher launcher(plan(), std::move(adopted));
    return open(launcher.pid(1));
  }();
  EXPECT_TRUE(has_ended(started, 60'000));
  EXPECT_FALSE(has_ended(left, 100));
}

}  // namespace
}  // namespace farside::team
