// What a server finds again after its death, and what it says when its files are not as it left them.
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <thread>

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kv/journal/journal_fixture.h"
#include "tests/support/shared.h"

namespace farside::kv::test {
namespace {

using KvJournal = JournalTest;

// Under sanitizers a recovery takes twenty times as long, and says no more of another byte of the same field.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStepBytes = 7;
#else
constexpr std::size_t kStepBytes = 1;
#endif

std::uint64_t bytes_of_files(const std::filesystem::path& directory) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::error_code gone;
    const auto size = entry.file_size(gone);
    bytes += gone ? 0 : size;
  }
  return bytes;
}

/// One of each change, a state after each.
std::vector<Contents> some_changes(Life& life) {
  std::vector<Contents> states{life.contents()};
  const auto note = [&](Answer answer) {
    EXPECT_EQ(answer, Answer::done);
    states.push_back(life.contents());
  };
  note(life.put("a", "1", 10));
  note(life.prepare(20, {"a", "b"}, "2"));
  note(life.prepare(30, {"b", "c"}, "3"));
  note(life.tell(RequestKind::commit, 20));
  note(life.tell(RequestKind::abort, 30));
  note(life.put("a", "", 40, true));
  note(life.prepare(50, {"c", "d"}, "5"));
  return states;
}

TEST_F(KvJournal, FindsAgainWhatWasChanged) {
  Contents before;
  {
    Life life(directory());
    before = some_changes(life).back();
  }
  Life life(directory());
  EXPECT_EQ(life.contents(), before);
  EXPECT_EQ(life.tell(RequestKind::commit, 30), Answer::barred);
  EXPECT_EQ(life.tell(RequestKind::commit, 20), Answer::done);
  EXPECT_EQ(life.tell(RequestKind::commit, 50), Answer::done);
  EXPECT_EQ(life.value("d"), "5");
}

// Replay commits an erasure where it was asked for, and the key is gone then: what came after it, and before they were
// synced together, must not be older.
TEST_F(KvJournal, KeepsAnErasureBesideAnOlderWrite) {
  {
    Life life(directory());
    const auto put = [&life](std::string_view key, std::uint64_t time, bool erase) {
      Request request{.kind = RequestKind::put, .session = Life::kSession, .timestamp = Life::at(time)};
      request.writes.push_back({.key = key, .value = erase ? "" : "1", .erase = erase});
      return life.logged().carry_out(request, request.encode()).answer;
    };
    EXPECT_EQ(put("a", 20, true), Answer::done);
    EXPECT_EQ(put("b", 15, false), Answer::done);
    EXPECT_EQ(put("a", 10, false), Answer::behind);
    EXPECT_TRUE(life.logged().sync());
    EXPECT_EQ(life.value("a"), std::nullopt);
  }
  EXPECT_FALSE(recovered().values.contains("a"));
}

// A log may end anywhere: the server that wrote it died. Every cut leaves the changes before it, and none in part.
TEST_F(KvJournal, RecoversWholeChangesFromALogCutAnywhere) {
  std::vector<Contents> states;
  {
    Life life(directory());
    states = some_changes(life);
  }
  const Bytes whole = read_file(log());
  std::size_t changes = states.size() - 1;
  ASSERT_EQ(recovered(), states[changes]);
  std::size_t steps = 0;
  for (std::size_t bytes = whole.size() - 1; bytes >= sizeof(JournalFileHead); bytes -= kStepBytes) {
    write_file(log(), {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    const Contents found = recovered();
    if (changes > 0 && found == states[changes - 1] && found != states[changes]) {
      --changes;
      ++steps;
    }
    ASSERT_EQ(found, states[changes]) << "cut at " << bytes;
    ASSERT_LE(std::filesystem::file_size(log()), bytes);
  }
  EXPECT_EQ(changes, 0u);
  EXPECT_EQ(steps, states.size() - 1);
}

// What follows a damaged entry would not be true without it; what was damaged last may as well have been cut off.
TEST_F(KvJournal, NoticesEveryByteThatIsDamaged) {
  std::vector<Contents> states;
  std::uint64_t before_last = 0;
  {
    Life life(directory());
    states = some_changes(life);
    before_last = std::filesystem::file_size(log());
    ASSERT_EQ(life.put("last", "1", 60), Answer::done);
  }
  const Bytes whole = read_file(log());
  for (std::size_t at = 0; at < whole.size(); at += kStepBytes) {
    Bytes damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    write_file(log(), damaged);
    if (at < before_last) {
      EXPECT_THROW((void)recovered(), Error) << "byte " << at;
    } else {
      EXPECT_EQ(recovered(), states.back()) << "byte " << at;
    }
  }
}

// Changes that were kept together may reach the disk in any order, and a crash then leaves a hole: no client was told
// of any.
TEST_F(KvJournal, CutsOffWhatWasNeverKeptTogether) {
  Contents kept;
  std::uint64_t kept_bytes = 0;
  {
    Life life(directory(), {.sync = SyncPolicy::no});
    kept = life.contents();
    kept_bytes = std::filesystem::file_size(log());
    for (std::uint64_t time = 1; time <= 5; ++time) (void)life.put("key", "value", time);
  }
  Bytes bytes = read_file(log());
  bytes[kept_bytes + 50] ^= 1;
  write_file(log(), bytes);
  EXPECT_EQ(recovered(), kept);
}

TEST_F(KvJournal, GoesOnAfterACutTail) {
  {
    Life life(directory());
    ASSERT_EQ(life.put("a", "1", 1), Answer::done);
    ASSERT_EQ(life.put("b", "1", 2), Answer::done);
  }
  std::filesystem::resize_file(log(), std::filesystem::file_size(log()) - 1);
  {
    Life life(directory());
    EXPECT_EQ(life.value("b"), std::nullopt);
    ASSERT_EQ(life.put("c", "1", 3), Answer::done);
  }
  EXPECT_EQ(recovered().values, (std::map<std::string, std::string>{{"a", "1 1"}, {"c", "3 1"}}));
}

TEST_F(KvJournal, IsHeldByOneServer) {
  const Life life(directory());
  EXPECT_THROW((void)recovered(), Error);
}

// Keys are where their hash says; with another number of servers they would not be found.
TEST_F(KvJournal, IsThatOfOnePartition) {
  { const Life life(directory()); }
  StoreUnderTest other;
  EXPECT_THROW(FileJournal({.directory = directory()}, {1, 2}, other.store()), Error);
  EXPECT_THROW(FileJournal({.directory = directory()}, {0, 2}, other.store()), Error);
}

// farside up waits for a recovery as long as it sees this.
TEST_F(KvJournal, ShowsTheProgressOfARecovery) {
  constexpr StoreSettings kLarge{.bytes = 8U << 20U};
  const std::string value(1U << 20U, 'v');
  const JournalSettings without_snapshots{.sync = SyncPolicy::no, .least_log_bytes = std::uint64_t{1} << 30U};
  {
    Life life(directory(), without_snapshots, kLarge);
    for (std::uint64_t time = 1; time <= 40; ++time) {
      ASSERT_EQ(life.put("a", value, time), Answer::done);
      life.pass(StoreUnderTest::kGrace);
    }
  }
  std::vector<std::uint64_t> read;
  JournalSettings observed = without_snapshots;
  observed.on_recovery = [&read](std::uint64_t bytes) { read.push_back(bytes); };
  const Life again(directory(), observed, kLarge);
  EXPECT_THAT(read, testing::ElementsAre(testing::Ge(kRecoveryStep), testing::Ge(2 * kRecoveryStep)));
}

TEST_F(KvJournal, NeedsAStoreThatIsLargeEnough) {
  {
    Life life(directory(), {.sync = SyncPolicy::no}, {.bytes = 4U << 20U});
    const std::string value(10'000, 'v');
    for (std::uint64_t i = 1; i <= 100; ++i) ASSERT_EQ(life.put("key " + std::to_string(i), value, i), Answer::done);
  }
  EXPECT_THROW((void)recovered(), Error);
}

// However often a key was written, and however little room there is beside the newest version.
TEST_F(KvJournal, NeedsNoMoreRoomThanThereWas) {
  const std::string value(10'000, 'v');
  {
    Life life(directory());
    for (std::uint64_t i = 1; i <= 200; ++i) {
      ASSERT_EQ(life.put("key", value, i), Answer::done);
      (void)life.pass(StoreUnderTest::kGrace);
    }
  }
  EXPECT_EQ(recovered().values.at("key"), "200 " + value);
}

// However many keys have come and gone.
TEST_F(KvJournal, NeedsNoRoomForWhatHasExpired) {
  const std::string value(10'000, 'v');
  const auto key_of = [](std::uint64_t i) { return "key " + std::to_string(i); };
  {
    Life life(directory());
    for (std::uint64_t i = 1; i <= 100; ++i) {
      const std::string key = key_of(i);
      ASSERT_EQ(life.put({key, value, life.in(std::chrono::seconds(1))}, i), Answer::done);
      for (int moment = 0; moment < 200; ++moment) (void)life.pass(std::chrono::milliseconds(50));
    }
    ASSERT_LE(life.store().use().versions, 1u);
  }
  Life life(directory(), {}, much_later());
  EXPECT_EQ(life.store().use().versions, 0u);
  EXPECT_EQ(life.put(key_of(1), value, 1000), Answer::done);
}

// A server that has learnt that a transaction is committed everywhere may let go of what it erased, or what has expired
// of it, and needs no room for it afterwards.
TEST_F(KvJournal, NeedsNoRoomForWhatHasExpiredOfTransactionsWhoseClientSaidNoMore) {
  {
    Life life(directory());
    for (std::uint64_t i = 1; i <= 500; ++i) {
      const std::string key = "key " + std::to_string(i);
      ASSERT_EQ(life.prepare(i, {{key, "value", life.in(std::chrono::seconds(1))}}), Answer::done);
      ASSERT_EQ(life.tell(RequestKind::commit, i), Answer::done);
      life.logged().note_everywhere(life.at(i));
      for (int moment = 0; moment < 200; ++moment) (void)life.pass(std::chrono::milliseconds(50));
    }
    ASSERT_TRUE(life.logged().sync());
  }
  Life life(directory(), {}, much_later());
  EXPECT_EQ(life.store().use().versions, 0u);
}

// Its client is told nothing else in the end, and another client may have seen it committed.
TEST_F(KvJournal, HasCommittedWhatIsPreparedHereAlone) {
  {
    Life life(directory());
    ASSERT_EQ(life.prepare(1, {"a", "b"}, "alone", {0}), Answer::done);
    ASSERT_EQ(life.prepare(2, {"c", "d"}, "not alone", {0, 1}), Answer::done);
  }
  for (int again = 0; again < 2; ++again) {
    Life life(directory());
    EXPECT_EQ(life.value("a"), "alone");
    EXPECT_EQ(life.value("b"), "alone");
    EXPECT_EQ(life.value("c"), std::nullopt);
    ASSERT_EQ(life.tell(RequestKind::abort, 1), Answer::done);  // which comes too late
  }
}

// A disk of some times what lives must be enough, however much is written.
TEST_F(KvJournal, StaysShortWhileLittleLives) {
  constexpr std::uint64_t kKeyBytes = 10'000;
  constexpr std::uint64_t kKeys = 100;
  constexpr std::uint64_t kRounds = 30;
  Life life(directory(), {.sync = SyncPolicy::no}, {.bytes = 8U << 20U, .grace = {}});
  std::uint64_t most = 0;
  for (std::uint64_t time = 1; time <= kRounds * kKeys; ++time) {
    ASSERT_EQ(life.put(std::to_string(time % kKeys), std::string(kKeyBytes, 'v'), time), Answer::done);
    (void)life.pass(StoreUnderTest::kGrace);
    for (int i = 0; i < 3; ++i) (void)life.logged().step();
    most = std::max(most, bytes_of_files(directory()));
    if (most > 10U << 20U) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // of the thread that syncs
  }
  EXPECT_LT(bytes_of_files(directory()), 12U << 20U);
}

/// A file system of `size` ("1m") in a mount namespace of its own, for the calling process. False: not as this user.
bool mount_small(const std::filesystem::path& at, const std::string& size) {
  std::filesystem::create_directories(at);
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", at.c_str(), "tmpfs", 0, ("mode=700,size=" + size).c_str()) == 0;
}

constexpr int kSkipped = 77;

// What makes room is kept; when there is little left the log gives way to a snapshot, and all goes on.
int fill_and_empty(const std::filesystem::path& directory) {
  if (!mount_small(directory, "1m")) return kSkipped;
  Life life(directory, {.sync = SyncPolicy::always, .least_log_bytes = 1U << 20U}, {.bytes = 2U << 20U, .grace = {}});
  const std::string value(2000, 'v');
  std::uint64_t keys = 0;
  std::uint64_t time = 0;
  Answer answer{};
  while ((answer = life.put(std::to_string(keys), value, ++time)) == Answer::done) ++keys;
  EXPECT_TRUE(answer == Answer::unwritable || answer == Answer::unknown);
  EXPECT_EQ(life.journal().state(), JournalState::full);
  EXPECT_EQ(life.put("other", value, ++time), Answer::unwritable);
  EXPECT_GT(keys, 200);
  for (std::uint64_t key = 0; key < keys; ++key) {
    EXPECT_EQ(life.put(std::to_string(key), "", ++time, true), Answer::done) << key << " of " << keys;
    (void)life.pass(StoreUnderTest::kGrace);
  }
  EXPECT_TRUE(farside::test::eventually([&] {
    (void)life.logged().step();
    return life.journal().state() == JournalState::sound;
  })) << life.store().use().bytes_used
      << " B in use, files of " << bytes_of_files(directory) << " B";
  EXPECT_EQ(life.put("other", value, ++time), Answer::done);
  EXPECT_EQ(life.contents().values.size(), 1);
  return testing::Test::HasFailure() ? 1 : 0;
}

// A log that is short, and yet most of a disk, gives way to a snapshot while there is room for one. On a disk as small
// as this a put that comes while both are there may be refused, until the log is removed.
int write_much(const std::filesystem::path& directory) {
  if (!mount_small(directory, "1m")) return kSkipped;
  Life life(directory, {.sync = SyncPolicy::always, .least_log_bytes = 1U << 20U}, {.bytes = 2U << 20U, .grace = {}});
  constexpr std::uint64_t kKeys = 40;
  for (std::uint64_t time = 1; time < 2000; ++time) {
    const auto is_put = [&] {
      (void)life.logged().step();
      return life.put(std::to_string(time % kKeys), std::string(2000, 'v'), time) == Answer::done;
    };
    EXPECT_TRUE(farside::test::eventually(is_put)) << time;
    (void)life.pass(StoreUnderTest::kGrace);
    const auto is_short = [&] {
      (void)life.logged().step();
      return bytes_of_files(directory) < 600U << 10U;
    };
    EXPECT_TRUE(farside::test::eventually(is_short));
    if (testing::Test::HasFailure()) return 1;
  }
  return life.contents().values.size() == kKeys ? 0 : 1;
}

class KvJournalOnASmallDisk : public JournalTest {
 protected:
  /// In a process of its own, which may mount.
  void run(int (*life)(const std::filesystem::path&)) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(life(directory()));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "only root can mount a small file system";
    EXPECT_EQ(status, 0);
  }
};

TEST_F(KvJournalOnASmallDisk, TakesErasuresWhenThatIsFullAndHasRoomAfterThem) { run(fill_and_empty); }

TEST_F(KvJournalOnASmallDisk, IsCompactedBeforeThatIsFull) { run(write_much); }

// What a client is told of a full disk is that there is no room; what it reads is as before.
TEST_F(KvJournal, RefusesChangesWhileTheDiskIsFull) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    Life life(directory());
    bool as_expected = life.put("a", "1", 1) == Answer::done;
    const rlimit tight{std::filesystem::file_size(log()) + 10, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &tight);
    as_expected = as_expected && life.put("b", "1", 2) == Answer::unknown;  // it may be there after a crash
    as_expected =
        as_expected && life.put("c", "1", 3) == Answer::unwritable && life.prepare(4, {"d"}, "1") == Answer::unwritable;
    as_expected = as_expected && life.value("a") == "1" && !life.value("b") && !life.value("c");
    const rlimit wide{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &wide);
    while (!life.logged().sync()) (void)::usleep(10'000);
    as_expected = as_expected && life.value("b") == "1" && life.put("c", "2", 5) == Answer::done;
    ::_exit(as_expected ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(recovered().values, (std::map<std::string, std::string>{{"a", "1 1"}, {"b", "2 1"}, {"c", "5 2"}}));
}

}  // namespace
}  // namespace farside::kv::test
