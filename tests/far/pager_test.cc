// The pager as programs meet it: real faults, its own threads, and pages kept through the fabric.
#include "far/pager/pager.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "tests/far/pager_memory.h"
#include "tests/support/reduced.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using namespace far;  // NOLINT(google-build-using-namespace)

using testing::HasSubstr;

// What the kernel says is here.
std::uint64_t resident_pages(const Pager& pager) {
  std::vector<unsigned char> here(pager.bytes() / kPageBytes);
  EXPECT_EQ(::mincore(pager.base(), pager.bytes(), here.data()), 0);
  return static_cast<std::uint64_t>(std::ranges::count_if(here, [](unsigned char page) { return (page & 1U) != 0; }));
}

class PagerTest : public testing::TestWithParam<FaultService> {};

std::string name_of(const testing::TestParamInfo<FaultService>& info) {
  return info.param == FaultService::handler ? "handler" : "in_thread";
}

INSTANTIATE_TEST_SUITE_P(Services, PagerTest, testing::Values(FaultService::in_thread, FaultService::handler), name_of);

// Eight times the budget is written and read again, in order and out of order; never is more here than the budget.
TEST_P(PagerTest, MoreThanTheBudgetIsKept) {
  const PagerMemory memory(GetParam());
  std::iota(memory.words.begin(), memory.words.end(), 1U);
  EXPECT_LE(resident_pages(*memory.pager), kPagerBudget / kPageBytes);
  for (std::size_t i = 0; i < memory.words.size(); ++i) ASSERT_EQ(memory.words[i], i + 1);
  EXPECT_LE(resident_pages(*memory.pager), kPagerBudget / kPageBytes);
  EXPECT_GE(memory.pager->pages_here() * 100, kPagerBudget / kPageBytes * 80);

  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): the same every time
  for (int n = 0; n < 5000; ++n) {
    const std::size_t i = random() % memory.words.size();
    ASSERT_EQ(memory.words[i], i + 1);
  }
}

// A space without room is waited for. After a second the user is told, and the program goes on when there is room.
TEST_P(PagerTest, AFullSpaceIsReportedAndWaitedFor) {
  const Fd log(::memfd_create("log", MFD_CLOEXEC));
  const Fd before(::dup(STDERR_FILENO));
  ASSERT_GE(::dup2(log.get(), STDERR_FILENO), 0);
  const auto said = [&log] {
    std::array<char, 4096> text{};
    const ssize_t bytes = ::pread(log.get(), text.data(), text.size(), 0);
    return std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  };
  const PagerMemory memory(GetParam());
  memory.space->writes_end_with.store(Status::full);
  std::jthread room([&] {
    (void)eventually([&] { return said().find("far memory is full") != std::string::npos; });
    memory.space->writes_end_with.store(Status::done);
  });
  std::iota(memory.words.begin(), memory.words.end(), 1U);
  room.join();
  ::dup2(before.get(), STDERR_FILENO);
  EXPECT_THAT(said(), HasSubstr("far memory is full: the program waits for a page to leave"));
  for (std::size_t i = 0; i < memory.words.size(); ++i) ASSERT_EQ(memory.words[i], i + 1);
}

// Many threads write into the same few pages, all of which come and go: each finds every one of its writes again.
TEST_P(PagerTest, NoWriteIsLostUnderHammering) {
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kWordsOfPage = kPageBytes / 8;
  const PagerMemory memory(GetParam(), std::uint64_t{4} << 20U, std::uint64_t{1} << 20U);
  const std::size_t pages = memory.words.size() / kWordsOfPage;
  const auto writes = static_cast<int>(reduced(6'000));
  std::atomic<int> lost{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);  // NOLINT(cert-msc51-cpp): the same every time
      std::vector<std::uint64_t> written(pages);
      for (int n = 1; n <= writes; ++n) {
        const std::size_t page = random() % pages;
        std::uint64_t& word = memory.words[page * kWordsOfPage + 1 + t];
        if (word != written[page]) ++lost;
        if (random() % 4 != 0) word = written[page] = static_cast<std::uint64_t>(n);
      }
      for (std::size_t page = 0; page < pages; ++page) {
        if (memory.words[page * kWordsOfPage + 1 + t] != written[page]) ++lost;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0);
  EXPECT_GT(memory.pager->counts().stored_pages, 1000U);
}

// What is only read is not written to the space again, and what only holds zeros is never kept there.
TEST_P(PagerTest, CleanAndZeroPagesAreNotCarried) {
  const PagerMemory memory(GetParam());
  for (std::uint64_t& word : memory.words) word = 0;
  EXPECT_EQ(memory.pager->counts().stored_pages, 0U);
  EXPECT_EQ(std::accumulate(memory.words.begin(), memory.words.end(), std::uint64_t{0}), 0U);
  EXPECT_EQ(memory.pager->counts().stored_pages, 0U);

  std::iota(memory.words.begin(), memory.words.end(), 1U);
  EXPECT_EQ(memory.words[0], 1U);
  const auto all = std::accumulate(memory.words.begin(), memory.words.end(), std::uint64_t{0});
  const std::uint64_t stored = memory.pager->counts().stored_pages;
  EXPECT_EQ(std::accumulate(memory.words.begin(), memory.words.end(), std::uint64_t{0}), all);
  // Those that were still dirty went once.
  EXPECT_LE(memory.pager->counts().stored_pages, std::max(stored, memory.words.size_bytes() / kPageBytes));
}

TEST_P(PagerTest, DiscardedPagesAreZerosAndRoomForOthers) {
  const PagerMemory memory(GetParam());
  std::iota(memory.words.begin(), memory.words.end(), 1U);
  memory.pager->discard(memory.pager->base(), memory.pager->bytes());
  EXPECT_EQ(memory.pager->pages_here(), 0U);
  EXPECT_EQ(std::accumulate(memory.words.begin(), memory.words.end(), std::uint64_t{0}), 0U);
}

// Only pages that lie wholly within a range are discarded.
TEST_P(PagerTest, DiscardSparesWhatIsBeside) {
  const PagerMemory memory(GetParam());
  for (std::size_t i = 0; i < 4096; ++i) memory.words[i] = i + 1;
  memory.pager->discard(&memory.words[1], 3 * kPageBytes);
  EXPECT_EQ(memory.words[511], 512U);
  EXPECT_EQ(memory.words[512], 0U);
  EXPECT_EQ(memory.words[1535], 0U);
  EXPECT_EQ(memory.words[1536], 1537U);
}

// An interval timer's handler touches far memory while the program does.
TEST_P(PagerTest, SignalHandlersMayTouchIt) {
#ifdef __SANITIZE_THREAD__
  if (GetParam() == FaultService::in_thread) GTEST_SKIP() << "the sanitizer blocks all signals in a handler";
#endif
  static std::atomic<std::uint64_t*> place;
  static std::atomic<std::uint64_t> calls;
  const PagerMemory memory(GetParam());
  place = memory.words.data();
  calls = 0;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { place.load()[calls++ * 512 % (kPagerSpace / 8)] += 1; };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval every{{0, 500}, {0, 500}};
  ::setitimer(ITIMER_REAL, &every, nullptr);
  for (int round = 0; round < 2 || calls < 20; ++round) {
    for (std::size_t i = 1; i < memory.words.size(); i += 64) memory.words[i] += 1;
  }
  const itimerval off{};
  ::setitimer(ITIMER_REAL, &off, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < memory.words.size(); i += 512) found += memory.words[i];
  EXPECT_EQ(found, calls);
}

// A handler serves system calls as well; in the faulting thread they are served for what is pinned.
TEST_P(PagerTest, SystemCallsTouchIt) {
  const PagerMemory memory(GetParam());
  std::iota(memory.words.begin(), memory.words.end(), 1U);
  constexpr std::size_t kBytes = 1U << 18U;
  if (GetParam() == FaultService::in_thread) memory.pager->advise(memory.pager->base(), 2 * kBytes, Hint::pinned);
  const Fd file = make_memfd("file", kBytes);
  ASSERT_EQ(::pwrite(file.get(), memory.pager->base(), kBytes, 0), static_cast<ssize_t>(kBytes));
  ASSERT_EQ(::pread(file.get(), memory.pager->base() + kBytes, kBytes, 0), static_cast<ssize_t>(kBytes));
  for (std::size_t i = 0; i < kBytes / 8; ++i) ASSERT_EQ(memory.words[kBytes / 8 + i], i + 1);
  if (GetParam() == FaultService::in_thread) {
    memory.pager->advise(memory.pager->base(), 2 * kBytes, Hint::none);
    std::iota(memory.words.begin(), memory.words.end(), 1U);
    EXPECT_EQ(::pwrite(file.get(), memory.pager->base(), kBytes, 0), -1);
    EXPECT_EQ(errno, EFAULT);
  }
}

// A child of fork has no such memory: it is stopped, and never finds zeros where its parent had something.
TEST_P(PagerTest, AForkedChildIsStoppedAtTheArena) {
  const PagerMemory memory(GetParam());
  memory.words[0] = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    ::_exit(memory.words[0] == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  EXPECT_EQ(memory.words[0], 1U);
}

// What it inherited it may destroy: it has neither the threads nor the arena.
TEST_P(PagerTest, AForkedChildEndsAsUsual) {
  PagerMemory memory(GetParam());
  memory.words[0] = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    memory.pager.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory.words[0], 1U);
}

// It has its parent's memory: its faults are served, and what it writes is there afterwards.
TEST_P(PagerTest, AChildOfVforkUsesIt) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer makes a fork of it";
#endif
  const PagerMemory memory(GetParam());
  std::iota(memory.words.begin(), memory.words.end(), 1U);
  const std::size_t last = memory.words.size() - 1;
  // NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork): just that is looked at
  const pid_t child = ::vfork();
  if (child == 0) {
    for (std::size_t i = 0; i <= last; i += 512) memory.words[i] += 1;
    ::_exit(memory.words[last] == last + 1 ? 0 : 1);
  }
  // NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork)
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (std::size_t i = 0; i <= last; ++i) ASSERT_EQ(memory.words[i], i + 1 + (i % 512 == 0 ? 1 : 0));
}

TEST_P(PagerTest, ProgramsCanBeStarted) {
  const PagerMemory memory(GetParam());
  memory.words[0] = 1;
  pid_t child = -1;
  std::string name = "true";
  const std::array<char*, 2> words{name.data(), nullptr};
  ASSERT_EQ(::posix_spawnp(&child, "true", nullptr, nullptr, words.data(), environ), 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// What is locked in memory is safe from the kernel, not from the budget.
TEST_P(PagerTest, LockedMemoryIsWithinTheBudget) {
  const PagerMemory memory(GetParam());
  if (::mlock2(memory.pager->base(), kPagerSpace, MLOCK_ONFAULT) != 0) GTEST_SKIP() << "may not lock so much";
  std::iota(memory.words.begin(), memory.words.end(), 1U);
  EXPECT_LE(resident_pages(*memory.pager), kPagerBudget / kPageBytes);
  for (std::size_t i = 0; i < memory.words.size(); ++i) ASSERT_EQ(memory.words[i], i + 1);
}

// A server is asked about a fault in another server's memory while it leaves.
TEST(BusErrors, AServerThatLeavesWaitsForThreadsThatMaySeeIt) {
  struct Slow final : BusErrorServer {
    [[nodiscard]] bool owns(const void* /*address*/) const override {
      is_asked = true;
      for (int i = 0; i < 200 && !has_left; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      is_asked = false;
      return false;
    }
    void serve_bus_error(void* /*address*/, bool /*is_write*/) override {}
    mutable std::atomic<bool> is_asked{false};
    std::atomic<bool> has_left{false};
  };
  struct Owner final : BusErrorServer {
    [[nodiscard]] bool owns(const void* /*address*/) const override { return true; }
    void serve_bus_error(void* /*address*/, bool /*is_write*/) override {}
  };
  Slow slow;
  Owner owner;
  std::optional<BusErrorRegistration> leaving(std::in_place, slow);
  const BusErrorRegistration stays(owner);
  std::thread faulting([] { ::raise(SIGBUS); });
  while (!slow.is_asked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  leaving.reset();
  EXPECT_FALSE(slow.is_asked);
  slow.has_left = true;
  faulting.join();
}

}  // namespace
}  // namespace farside::test
