// The record of a pool on a file system that takes no more.
#include "node/pool_directory.h"

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "farside/base/error.h"

#include "tests/support/fleet.h"
#include "tests/support/pool.h"

namespace farside::test {
namespace {

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

// Neither an empty record nor a part of one is in the place of the former.
TEST(PoolDirectory, KeepsTheFormerRecordWhenTheNewOneCannotBeWritten) {
  const TemporaryDirectory directory;
  const PoolDirectory pool(directory.path());
  Fleet fleet(1, [&pool](Member& /*me*/) {
    PoolRecord record{.supervisor = 17, .nodes = {{.rank = 0, .process = 18, .restarts = 0}}};
    pool.write_record(record);
    std::signal(SIGXFSZ, SIG_IGN);
    constexpr rlimit kTiny{16, RLIM_INFINITY};  // bytes of a file
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &kTiny), 0);
    record.supervisor = 19;
    EXPECT_THROW(pool.write_record(record), Error);
    EXPECT_EQ(pool.read_record().value().supervisor, 17);
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
