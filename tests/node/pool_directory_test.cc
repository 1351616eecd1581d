// The record of a pool on a file system that takes no more.
#include "node/pool/pool_directory.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "farside/base/error.h"

#include "tests/support/fleet.h"
#include "tests/support/pool.h"

namespace farside::test {
namespace {

using node::PoolDirectory;

TEST(PoolDirectory, SaysHowMuchOfItsJournalANodeHasRead) {
  const TemporaryDirectory directory;
  const PoolDirectory pool(directory.path());
  EXPECT_EQ(pool.read_recovered(1), 0U);
  pool.write_recovered(1, 5'000'000'000);
  EXPECT_EQ(pool.read_recovered(1), 5'000'000'000U);
  EXPECT_EQ(pool.read_recovered(0), 0U);
  EXPECT_TRUE(pool.clean());
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

// A process that asks is no pool to the next one that asks.
TEST(PoolDirectory, TellsWhetherItIsLocked) {
  const TemporaryDirectory directory;
  const PoolDirectory pool(directory.path());
  const Fd another_who_asks(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(another_who_asks.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_FALSE(pool.is_locked());
  ASSERT_EQ(::flock(another_who_asks.get(), LOCK_UN), 0);
  auto lock = pool.try_lock();
  ASSERT_TRUE(lock);
  EXPECT_TRUE(pool.is_locked());
  lock.reset();
  EXPECT_FALSE(pool.is_locked());
}

TEST(PoolDirectory, CleansUpAllButALogInWhichSomethingIs) {
  const TemporaryDirectory directory;
  const PoolDirectory pool(directory.path());
  std::ofstream(pool.log()).flush();
  EXPECT_FALSE(pool.clean()) << "a log alone is no pool that was killed";
  EXPECT_FALSE(std::filesystem::exists(pool.log()));
  std::ofstream(pool.log()) << "said\n";
  EXPECT_FALSE(pool.clean());
  EXPECT_TRUE(std::filesystem::exists(pool.log()));
  pool.keep_log();
  pool.keep_log();
  EXPECT_FALSE(std::filesystem::exists(pool.log()));
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "pool.log.1"));
}

// Neither an empty record nor a part of one is in the place of the former.
TEST(PoolDirectory, KeepsTheFormerRecordWhenTheNewOneCannotBeWritten) {
  const TemporaryDirectory directory;
  const PoolDirectory pool(directory.path());
  Fleet fleet(1, [&pool](Member& /*me*/) {
    node::PoolRecord record{.supervisor = 17,
                            .supervisor_started = 1,
                            .options = "-n 1",
                            .meeting = "here",
                            .nodes = {{.rank = 0, .process = 18, .restarts = 0}}};
    pool.write_record(record);
    std::signal(SIGXFSZ, SIG_IGN);
    constexpr rlimit kTiny{16, RLIM_INFINITY};  // bytes of a file
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &kTiny), 0);
    record.supervisor = 19;
    EXPECT_THROW(pool.write_record(record), Error);
    const node::PoolRecord read = pool.read_record().value();
    EXPECT_EQ(read.supervisor, 17);
    EXPECT_EQ(read.supervisor_started, 1U);
    EXPECT_EQ(read.options, "-n 1");
    EXPECT_EQ(read.meeting, "here");
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
