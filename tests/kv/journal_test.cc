// What a server finds again after its death, and what it says when its files are not as it left them.
#include <csignal>
#include <cstdlib>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kv/journal_fixture.h"

namespace farside::kv::test {
namespace {

using KvJournal = JournalTest;

// Under sanitizers a recovery takes twenty times as long, and says no more of another byte of the same field.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStepBytes = 7;
#else
constexpr std::size_t kStepBytes = 1;
#endif

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

// A log may end anywhere: whoever wrote it died. Every cut leaves the changes before it, and none in part.
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

// Changes that were kept together may reach the disk in any order, and a crash then leaves a hole: nobody was told of
// any.
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

// Its client is told nothing else in the end, and somebody may have seen it committed.
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
    as_expected = as_expected && life.put("c", "1", 3) == Answer::full && life.prepare(4, {"d"}, "1") == Answer::full;
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
