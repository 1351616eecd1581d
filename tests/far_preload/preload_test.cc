// An unmodified program under the preload library, with a budget of a fraction of its memory. The daemon is a stand-in,
// so what fails here is the library's fault.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/far_preload/far_program.h"
#include "tests/far_preload/stand_in_daemon.h"
#include "tests/support/command.h"
#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> with_far_memory(const std::string& socket, const std::string& what,
                                         const std::string& libraries = ":libjemalloc.so.2") {
  return {"/usr/bin/env", "FARSIDE_FAR=" + socket, "LD_PRELOAD=" FARSIDE_FAR_LIBRARY + libraries, FARSIDE_FAR_PROGRAM,
          what};
}

class PreloadTest : public testing::TestWithParam<const char*> {};

// A quarter of 8 MiB, which each of these uses at least. tests/cli/far_test.cc has all of them, and the real daemon.
TEST_P(PreloadTest, DoesWhatItAlwaysDoes) {
  const StandInDaemon daemon({.budget_pages = 512});
  const CommandEnd end = run(with_far_memory(daemon.socket(), GetParam()));
  EXPECT_EQ(end.status, 0) << end.err;
  EXPECT_THAT(end.err, IsEmpty());
  EXPECT_GT(daemon.faults(), 2000U);
}

INSTANTIATE_TEST_SUITE_P(Programs, PreloadTest,
                         testing::Values("statics", "statics_discarded", "statics_unmapped", "statics_remapped",
                                         "malloc", "unmapped_parts", "remapped", "mapped_over", "attached_over",
                                         "huge_pages_over", "advised", "forks_among_threads", "forks_beside_libc",
                                         "forks_past_hooks", "futexes", "signals", "descriptors", "direct_reads",
                                         "refused_calls"),
                         [](const auto& one) { return std::string(one.param); });

TEST(FarPreload, WhatIsReadFromAnOverlayIsCopied) {
  const StandInDaemon daemon({.budget_pages = 4096});
  const CommandEnd end = run(with_far_memory(daemon.socket(), "overlay_reads"));
  if (end.code() == far_program::kCannotBeTried) GTEST_SKIP() << end.out;
  EXPECT_EQ(end.status, 0) << end.err;
}

/// A file system of a process, which lets the kernel keep nothing: what is read comes straight into the reader's
/// memory. On it is a file with the known words, which has long been as it is.
class FuseMount {
 public:
  FuseMount()
      : server_([this] {
          const auto source = directory_.path() / "source";
          std::filesystem::create_directory(source);
          std::filesystem::create_directory(place());
          std::vector<std::uint64_t> words(far_program::kKnownBytes / 8);
          std::iota(words.begin(), words.end(), 1U);
          std::ofstream(source / "file").write(reinterpret_cast<const char*>(words.data()), far_program::kKnownBytes);
          return std::vector<std::string>{FARSIDE_COUNTING_FS, "--image", source, place()};
        }()) {}
  ~FuseMount() { ::umount2(place().c_str(), MNT_DETACH); }
  FuseMount(const FuseMount&) = delete;
  FuseMount& operator=(const FuseMount&) = delete;

  [[nodiscard]] std::string place() const { return std::filesystem::canonical(directory_.path()) / "mount"; }
  [[nodiscard]] std::string file() const { return place() + "/file"; }
  [[nodiscard]] bool is_mounted() const { return std::filesystem::exists(file()); }

 private:
  TemporaryDirectory directory_;
  Command server_;
};

#define SKIP_WITHOUT_FUSE()                                                              \
  if (::access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "no access to /dev/fuse"; \
  if (::geteuid() != 0) GTEST_SKIP() << "only root can end a mount without further programs"

std::vector<std::string> reading(const FuseMount& mount, std::vector<std::string> command) {
  command.insert(command.begin() + 1, "FAR_PROGRAM_FILE=" + mount.file());
  return command;
}

TEST(FarPreload, ThreadsMayBeCancelledInACopiedRead) {
  const StandInDaemon daemon({.budget_pages = 4096});
  const CommandEnd end = run(with_far_memory(daemon.socket(), "cancelled_reads"));
  EXPECT_EQ(end.status, 0) << end.err;
}

TEST(FarPreload, WhatIsReadFromFuseIsCopied) {
  SKIP_WITHOUT_FUSE();
  const FuseMount mount;
  ASSERT_TRUE(eventually([&] { return mount.is_mounted(); }));
  const StandInDaemon daemon({.budget_pages = 4096});
  const CommandEnd end = run(reading(mount, with_far_memory(daemon.socket(), "file_reads")));
  EXPECT_EQ(end.status, 0) << end.err;
}

// The cache's library reads a file itself when its node does not, whichever library is in front.
TEST(FarPreload, WhatTheCacheReadsInItsNodesPlaceIsCopied) {
  SKIP_WITHOUT_FUSE();
  const FuseMount mount;
  ASSERT_TRUE(eventually([&] { return mount.is_mounted(); }));
  const TemporaryDirectory directory;
  const std::string socket = directory.path() / "daemon";
  const Command node({FARSIDE_EXEC_NODE, socket, "65536", "64", "busy"});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(socket); }));
  for (const char* const libraries :
       {FARSIDE_EXEC_LIBRARY ":" FARSIDE_FAR_LIBRARY, FARSIDE_FAR_LIBRARY ":" FARSIDE_EXEC_LIBRARY}) {
    const StandInDaemon daemon({.budget_pages = 4096});
    const std::size_t answers = node.out().size();
    const CommandEnd end =
        run({"/usr/bin/env", "FAR_PROGRAM_FILE=" + mount.file(), "FARSIDE_FAR=" + daemon.socket(),
             "FARSIDE_NODE_SOCKET=" + socket, "FARSIDE_UNDER=" + mount.place() + "/",
             std::string("LD_PRELOAD=") + libraries + ":libjemalloc.so.2", FARSIDE_FAR_PROGRAM, "file_reads"});
    EXPECT_EQ(end.status, 0) << libraries << '\n' << end.err;
    EXPECT_GT(node.out().size(), answers) << libraries;
  }
}

// That the programs can tell.
TEST(FarPreload, ProgramsNoticeADaemonThatLosesBytes) {
  const StandInDaemon daemon({.budget_pages = 512, .rules = {.keeps_bytes = false}});
  EXPECT_NE(run(with_far_memory(daemon.socket(), "statics")).status, 0);
}

TEST(FarPreload, ProgramsNoticeADaemonThatDiscardsNothing) {
  const StandInDaemon daemon({.budget_pages = 512, .rules = {.discards = false}});
  EXPECT_NE(run(with_far_memory(daemon.socket(), "unmapped_parts")).status, 0);
}

TEST(FarPreload, ProgramsNoticeADaemonThatForgetsWhatAChildInherits) {
  const StandInDaemon daemon({.budget_pages = 512, .rules = {.copies_space_at_fork = false}});
  EXPECT_NE(run(with_far_memory(daemon.socket(), "forks")).status, 0);
}

// What is freed in small pieces is told in large ones.
TEST(FarPreload, FreedRangesShareRequests) {
  const StandInDaemon daemon({.budget_pages = 512});
  EXPECT_EQ(run(with_far_memory(daemon.socket(), "frees")).status, 0);
  EXPECT_LT(daemon.discards(), 100U);
}

TEST(FarPreload, AProgramDiesWithItsDaemon) {
  auto daemon = std::make_unique<StandInDaemon>(StandInOptions{.budget_pages = 512});
  Command program(with_far_memory(daemon->socket(), "sleeps"));
  ASSERT_TRUE(eventually([&] { return program.out() == "ready\n"; }));
  daemon = nullptr;
  const CommandEnd end = program.wait();
  EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) << end.status;
}

TEST(FarPreload, WithoutADaemonAProgramIsNotStarted) {
  const CommandEnd end = run(with_far_memory("/no/such/daemon", "statics"));
  EXPECT_EQ(end.code(), 125);
  EXPECT_THAT(end.err, HasSubstr("farside far: cannot"));
  EXPECT_THAT(end.err, HasSubstr("No such file or directory"));
}

TEST(FarPreload, SetuidProgramsAreLeftAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's program";
  const TemporaryDirectory directory;
  const std::filesystem::path program = directory.path() / "program";
  std::filesystem::copy_file(FARSIDE_FAR_LINKED_PROGRAM, program);
  ::chmod(directory.path().c_str(), 0755);
  ASSERT_EQ(::chown(program.c_str(), 65534, 65534), 0);
  const std::vector<std::string> command{"/usr/bin/env", "FARSIDE_FAR=/no/such/daemon", program};
  EXPECT_EQ(run(command).code(), 125);
  ::chmod(program.c_str(), 04755);
  const CommandEnd end = run(command);
  if (end.code() == 127) GTEST_SKIP() << "another user cannot get at the library in this build";
  EXPECT_EQ(end.code(), 0) << end.err;
}

TEST(FarPreload, AProgramThatIsRefusedIsNotStartedAndSaysWhy) {
  const StandInDaemon daemon({.rules = {.refuses = true}});
  const CommandEnd end = run(with_far_memory(daemon.socket(), "statics"));
  EXPECT_EQ(end.code(), 125);
  EXPECT_THAT(end.err, HasSubstr("because it is a test"));
}

TEST(FarPreload, WithoutJemallocAProgramIsNotStarted) {
  const StandInDaemon daemon;
  const CommandEnd end = run(with_far_memory(daemon.socket(), "statics", ""));
  EXPECT_EQ(end.code(), 125);
  EXPECT_THAT(end.err, HasSubstr("apt install libjemalloc2"));
}

// Its streams would have devices write into pages that may leave, past all hooks.
TEST(FarPreload, WithoutTheReadsOfAllStreamsAProgramIsNotStarted) {
  const StandInDaemon daemon;
  const CommandEnd end =
      run(with_far_memory(daemon.socket(), "statics", ":" FARSIDE_UNKNOWN_STREAMS ":libjemalloc.so.2"));
  EXPECT_EQ(end.code(), 125);
  EXPECT_THAT(end.err, HasSubstr("cannot take over the reads of libc's streams"));
}

// What is more than there are addresses is an allocation that fails.
TEST(FarPreload, AnArenaThatIsFullIsMemoryThatHasRunOut) {
  const StandInDaemon daemon({.arena_bytes = std::uint64_t{64} << 20U, .budget_pages = 512});
  const CommandEnd end = run(with_far_memory(daemon.socket(), "runs_out"));
  EXPECT_EQ(end.status, 0) << end.err;
}

}  // namespace
}  // namespace farside::test
