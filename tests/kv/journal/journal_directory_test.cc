// Where a journal may be: a directory that no other user can change.
#include <string>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kv/journal/journal_fixture.h"

namespace farside::kv::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

using KvJournalDirectory = JournalTest;

TEST_F(KvJournalDirectory, IsMadeForItsOwnerAloneWhateverTheMask) {
  const mode_t before = ::umask(0);
  const JournalDirectory made(directory() / "server-0");
  ::umask(before);
  EXPECT_EQ(fs::status(directory() / "server-0").permissions(), fs::perms::owner_all);
}

TEST_F(KvJournalDirectory, MayBeReadByOthersAndNotWritten) {
  fs::create_directories(directory());
  for (const unsigned mode : {0755U, 0770U, 0707U}) {
    fs::permissions(directory(), fs::perms(mode));
    EXPECT_EQ(error_of([&] { const JournalDirectory taken(directory()); }), "no error");
    EXPECT_EQ(fs::status(directory()).permissions(), fs::perms(mode & 0755U));
  }
}

TEST_F(KvJournalDirectory, MayBeOfRootAndOfNoOtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  fs::create_directories(directory());
  ASSERT_EQ(::chown(directory().c_str(), 65534, 65534), 0);
  const std::string said = error_of([&] { const JournalDirectory refused(directory()); });
  EXPECT_THAT(said, HasSubstr("it belongs to another user (uid 65534)"));
}

// A link could lead to a file of this user that is no journal.
TEST_F(KvJournalDirectory, WritesThroughNoLink) {
  fs::create_directories(directory());
  const fs::path elsewhere = directory().parent_path() / "elsewhere";
  fs::create_symlink(elsewhere, directory() / "lock");
  EXPECT_THAT(error_of([&] { const JournalDirectory refused(directory()); }), HasSubstr("symbolic links"));
  EXPECT_FALSE(fs::exists(elsewhere));

  fs::remove(directory() / "lock");
  const JournalDirectory taken(directory());
  const JournalFileId id{JournalFileKind::log, 1};
  fs::create_symlink(elsewhere, directory() / (JournalDirectory::name_of(id) + ".new"));
  EXPECT_FALSE(taken.create(id));
  EXPECT_FALSE(fs::exists(elsewhere));
}

TEST_F(KvJournalDirectory, GoesOnWithNoLogThatIsALink) {
  { Life life(directory()); }
  const fs::path elsewhere = directory().parent_path() / "elsewhere";
  fs::rename(log(), elsewhere);
  fs::create_symlink(elsewhere, log());
  EXPECT_THAT(error_of([&] { (void)recovered(); }), HasSubstr("symbolic links"));
}

}  // namespace
}  // namespace farside::kv::test
