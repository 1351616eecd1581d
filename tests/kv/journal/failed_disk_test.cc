// What is on the disk when, and what a server does after fdatasync has failed, whichever thread called it: it takes no
// change any more, and shows what it has. This program has an fdatasync of its own.
#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>

#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kv/journal/journal_fixture.h"
#include "tests/support/shared.h"

namespace {

/// Files with this in their names cannot be synced; null: all can.
std::atomic<const char*> failing = nullptr;

bool fails(int file) {
  const char* const name = failing;
  if (name == nullptr) return false;
  std::array<char, 4096> path{};
  const ssize_t bytes = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path.data(), path.size());
  return bytes > 0 &&
         std::string_view(path.data(), static_cast<std::size_t>(bytes)).find(name) != std::string_view::npos;
}

}  // namespace

extern "C" int fdatasync(int file) {
  if (!fails(file)) return static_cast<int>(::syscall(SYS_fdatasync, file));
  errno = EIO;
  return -1;
}

namespace farside::kv::test {
namespace {

using farside::test::eventually;

class KvFailedDisk : public JournalTest {
 protected:
  ~KvFailedDisk() override { failing = nullptr; }

  /// Entries up to which, as the log itself says, all were on the disk when the last one was written.
  [[nodiscard]] std::uint64_t synced() const {
    const JournalFileId id{JournalFileKind::log, 1};
    JournalReader reader(log(), id, {});
    std::uint64_t synced = 0;
    while (const auto entry = reader.next()) synced = entry->head.synced;
    return synced;
  }
  static void write_until_it_fails(Life& life) {
    ASSERT_EQ(life.put("early", "1", 1), Answer::done);
    std::uint64_t time = 1;
    EXPECT_TRUE(eventually([&] {
      EXPECT_EQ(life.put("key", std::string(1000, 'v'), ++time), Answer::done);
      (void)life.pass(StoreUnderTest::kGrace);
      (void)life.logged().step();
      return !life.journal().takes();
    }));
  }
  static void expect_nothing_taken_and_everything_shown(Life& life) {
    EXPECT_EQ(life.put("late", "1", 1'000'000), Answer::unwritable);
    EXPECT_EQ(life.prepare(1'000'001, {"later"}, "1"), Answer::unwritable);
    failing = nullptr;  // what the disk holds is unknown
    for (int i = 0; i < 100; ++i) (void)life.logged().step();
    EXPECT_EQ(life.put("late", "1", 1'000'002), Answer::unwritable);
    EXPECT_EQ(life.value("early"), "1");
  }
};

TEST_F(KvFailedDisk, SyncsEverySecondWithoutBeingAsked) {
  Life life(directory(), {.sync = SyncPolicy::everysec});
  std::uint64_t time = 0;
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(life.put("key", "value", ++time), Answer::done);
    (void)life.pass(StoreUnderTest::kGrace);
    (void)life.logged().step();
    return synced() > 1;
  }));
}

TEST_F(KvFailedDisk, SyncsNothingUnlessItIsTold) {
  Life life(directory(), {.sync = SyncPolicy::no});
  for (std::uint64_t time = 1; time <= 1000; ++time) {
    EXPECT_EQ(life.put("key", "value", time), Answer::done);
    (void)life.pass(StoreUnderTest::kGrace);
    (void)life.logged().step();
  }
  EXPECT_EQ(synced(), 0u);
}

TEST_F(KvFailedDisk, WhenAnswersWaitForItTakesNothingMore) {
  Life life(directory(), {.sync = SyncPolicy::always});
  ASSERT_EQ(life.put("early", "1", 1), Answer::done);
  failing = "log-";
  EXPECT_EQ(life.put("doubtful", "1", 2), Answer::unknown);
  EXPECT_EQ(life.value("doubtful"), std::nullopt);
  expect_nothing_taken_and_everything_shown(life);
}

TEST_F(KvFailedDisk, WhenAThreadSyncsEverySecondTakesNothingMore) {
  Life life(directory(), {.sync = SyncPolicy::everysec});
  ASSERT_EQ(life.put("early", "1", 1), Answer::done);
  failing = "log-";
  EXPECT_TRUE(eventually([&life] {
    (void)life.logged().step();
    return !life.journal().takes();
  }));
  expect_nothing_taken_and_everything_shown(life);
}

// A log that is to be followed by the next is synced by a thread that makes that.
TEST_F(KvFailedDisk, WhenALogIsFollowedByTheNextTakesNothingMore) {
  Life life(directory(), {.sync = SyncPolicy::no, .least_log_bytes = 4096});
  failing = "log-";
  write_until_it_fails(life);
  EXPECT_FALSE(std::filesystem::exists(log(2)));
  expect_nothing_taken_and_everything_shown(life);
}

// A snapshot stands in the place of older logs as soon as it has its name: not before the log beside it is on the disk.
TEST_F(KvFailedDisk, WhenASnapshotIsToHaveItsNameTakesNothingMore) {
  Life life(directory(), {.sync = SyncPolicy::no, .least_log_bytes = 4096});
  failing = "log-0000000000000002";
  write_until_it_fails(life);
  EXPECT_FALSE(std::filesystem::exists(file({JournalFileKind::snapshot, 2})));
  EXPECT_TRUE(std::filesystem::exists(log(1)));
  expect_nothing_taken_and_everything_shown(life);
}

}  // namespace
}  // namespace farside::kv::test
