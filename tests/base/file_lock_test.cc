#include "base/file_lock.h"

#include <cstdio>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside {
namespace {

using Kind = FileLock::Kind;

class FileLocks : public testing::Test {
 protected:
  std::optional<FileLock> try_lock(Kind kind) const {
    // Opened anew, as another process would.
    const std::string path = "/proc/self/fd/" + std::to_string(::fileno(file_));
    return FileLock::try_lock(Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC)), kind, "lock", "a file");
  }
  ~FileLocks() override { std::fclose(file_); }

  std::FILE* const file_ = std::tmpfile();
};

TEST_F(FileLocks, ExcludeEachOtherUnlessTheyAreShared) {
  std::optional<FileLock> held = try_lock(Kind::exclusive);
  ASSERT_TRUE(held);
  EXPECT_FALSE(try_lock(Kind::exclusive));
  EXPECT_FALSE(try_lock(Kind::shared));
  held.reset();
  held = try_lock(Kind::shared);
  EXPECT_TRUE(held);
  EXPECT_TRUE(try_lock(Kind::shared));
  EXPECT_FALSE(try_lock(Kind::exclusive));
}

TEST_F(FileLocks, AreHeldByTheChildTheyAreLeftTo) {
  std::optional<FileLock> held = try_lock(Kind::exclusive);
  ASSERT_TRUE(held);
  Fd of_child(::dup(held->file().get()));  // which a fork copies
  held->leave_to_child();
  EXPECT_FALSE(try_lock(Kind::exclusive));
  of_child.reset();
  EXPECT_TRUE(try_lock(Kind::exclusive));
}

TEST(FileLock, SaysWhyAFileCannotBeLocked) {
  try {
    (void)FileLock::try_lock(Fd(), Kind::exclusive, "lock", "the pool", "choose another");
    FAIL() << "it locked nothing";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot lock the pool: Bad file descriptor; choose another");
  }
}

}  // namespace
}  // namespace farside
