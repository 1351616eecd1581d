// What a pager needs to begin, what it refuses, and how a program ends whose pages cannot be brought.
#include <csignal>
#include <cstring>
#include <numeric>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "tests/far/pager_memory.h"

namespace farside::test {
namespace {

using namespace far;  // NOLINT(google-build-using-namespace)

TEST(PagerSetUp, RefusesABudgetThatIsTooSmall) {
  for (const std::uint64_t budget : {std::uint64_t{0}, std::uint64_t{4096}}) {
    EXPECT_THROW(PagerMemory(FaultService::automatic, kPagerSpace, budget), UsageError);
  }
}

TEST(PagerSetUp, RefusesToPinMoreThanTheBudgetBears) {
  const PagerMemory memory(FaultService::automatic);
  EXPECT_THROW(memory.pager->advise(memory.pager->base(), kPagerBudget, Hint::pinned), UsageError);
  for (int i = 0; i < 2; ++i)
    memory.pager->advise(memory.pager->base(), kPagerBudget / 2, Hint::pinned);  // counts once
  EXPECT_THROW(memory.pager->advise(memory.pager->base() + kPagerBudget, kPagerBudget / 2, Hint::pinned), UsageError);
  memory.pager->advise(memory.pager->base(), kPagerBudget / 2, Hint::none);
  memory.pager->advise(memory.pager->base() + kPagerBudget, kPagerBudget / 2, Hint::pinned);
}

TEST(PagerSetUp, ChoosesAHandlerWhereSignalsAreBlocked) {
  sigset_t bus;
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  ::pthread_sigmask(SIG_BLOCK, &bus, nullptr);
  const PagerMemory memory(FaultService::automatic);
  EXPECT_EQ(memory.pager->service(), FaultService::handler);
  ::pthread_sigmask(SIG_UNBLOCK, &bus, nullptr);
  EXPECT_EQ(PagerMemory(FaultService::automatic).pager->service(), FaultService::in_thread);
}

// Without rights the program's own faults can be served, the kernel's cannot; and the error names what would let it.
TEST(PagerSetUp, SaysWhatIsNotPermitted) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root, to give it up";
  if (Fd setting(::open("/proc/sys/vm/unprivileged_userfaultfd", O_RDONLY)); setting) {
    char value = '1';
    ASSERT_EQ(::read(setting.get(), &value, 1), 1);
    if (value != '0') GTEST_SKIP() << "every user is permitted here";
  }
  EXPECT_EXIT(
      {
        if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
        try {
          const Userfault everywhere(FaultService::handler);
          ::_exit(2);
        } catch (const Error& error) {
          (void)!::write(STDERR_FILENO, error.what(), std::strlen(error.what()));
        }
        const Userfault own(FaultService::in_thread);
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "vm.unprivileged_userfaultfd=1.*/dev/userfaultfd");
}

// Bytes that are gone end the program as memory that fails does, with a line that says so.
TEST(PagerDeath, OfLostPages) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own handler comes first";
#endif
  EXPECT_EXIT(
      {
        const PagerMemory memory(FaultService::in_thread);
        std::iota(memory.words.begin(), memory.words.end(), 1U);
        memory.space->reads_end_with.store(Status::lost);
        ::_exit(memory.words[0] == 1 ? 0 : 1);
      },
      testing::KilledBySignal(SIGBUS), "farside: cannot bring a page of far memory: lost");
}

// A space that has no room is waited for; in the end the program is told.
TEST(PagerDeath, OfASpaceThatStaysFull) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own handler comes first";
#endif
  EXPECT_EXIT(
      {
        const PagerMemory memory(FaultService::in_thread, kPagerSpace, kPagerBudget, std::chrono::milliseconds(200));
        memory.space->writes_end_with.store(Status::full);
        std::iota(memory.words.begin(), memory.words.end(), 1U);
        ::_exit(0);
      },
      testing::KilledBySignal(SIGBUS), "farside: cannot bring a page of far memory: .*far memory is full");
}

}  // namespace
}  // namespace farside::test
