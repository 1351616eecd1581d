// One of two copies in a directory: what it claims is what it has, whenever its process ends.
#include "kv/journal/durable_copy.h"

#include <algorithm>
#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "kv/server/replay.h"
#include "tests/kv/journal/journal_fixture.h"

namespace farside::kv::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr Partition kPartition{1, 3};
constexpr unsigned kSeat = 1;
constexpr std::uint64_t kStore = 77;

Timestamp at(std::uint64_t time) { return StoreUnderTest::at(time); }

/// A store, and its copy in a directory, until its process ends.
class CopyLife : public StoreUnderTest {
 public:
  explicit CopyLife(const fs::path& directory, SyncPolicy sync = SyncPolicy::always)
      : StoreUnderTest({.bytes = 128U << 10U}), copy_({.directory = directory, .sync = sync}, kPartition, kSeat) {}

  [[nodiscard]] DurableCopy& copy() { return copy_; }
  std::uint64_t recover() { return copy_.recover(store()); }
  [[nodiscard]] bool begin(std::uint64_t store_number = kStore, std::uint64_t epoch = 5) {
    copy_.prepare_to_copy(store());
    return copy_.begin_copy(store_number, epoch);
  }

  /// As the primary does: it is kept.
  void put(std::string_view key, std::string_view value, std::uint64_t time) {
    Request request{.kind = RequestKind::put, .session = kSession, .timestamp = at(time)};
    request.writes.push_back({.key = key, .value = value});
    ASSERT_EQ(replay(store(), request), Answer::done);
    copy_.append(request.encode());
    ASSERT_TRUE(copy_.keep());
  }
  /// As a standby does that is taught.
  void learn(std::string_view key, std::string_view value, std::uint64_t time) {
    Request request{.kind = RequestKind::put, .timestamp = at(time)};
    request.writes.push_back({.key = key, .value = value});
    copy_.append_version(request.encode());
    ASSERT_TRUE(copy_.keep());
  }
  [[nodiscard]] std::string newest(const std::string& key) {
    const auto found = store().newest(key);
    return found ? value(*found, key).value_or("no value") : "no key";
  }

 private:
  DurableCopy copy_;
};

class KvDurableCopy : public testing::Test {
 protected:
  [[nodiscard]] fs::path directory() const { return directory_.path() / "copy of 1"; }
  [[nodiscard]] fs::path record() const { return directory() / CopyRecord::kName; }
  [[nodiscard]] std::string failure() const {
    return error_of([this] { CopyLife life(directory()); });
  }
  [[nodiscard]] std::size_t folders() const {
    const auto is_folder = [](const fs::directory_entry& each) { return each.is_directory(); };
    return static_cast<std::size_t>(
        std::count_if(fs::directory_iterator(directory()), fs::directory_iterator(), is_folder));
  }
  static void expect(const DurableCopy& copy, CopyStanding standing, std::uint64_t epoch) {
    EXPECT_EQ(copy.claim().standing, standing);
    EXPECT_EQ(copy.claim().epoch, epoch);
  }
  void damage(std::size_t offset) const {
    Bytes bytes = read_file(record());
    bytes.at(offset) ^= 1;
    write_file(record(), bytes);
  }

 private:
  farside::test::OnAQuickDisk on_a_quick_disk_;
  farside::test::TemporaryDirectory directory_;
};

TEST_F(KvDurableCopy, OfAPrimaryHasWhatWasKeptInANewEpochEachTime) {
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch) {
    CopyLife life(directory());
    EXPECT_EQ(life.recover(), epoch);
    expect(life.copy(), CopyStanding::alone, epoch);
    if (epoch > 1) {
      EXPECT_EQ(life.newest("key"), std::to_string(epoch - 1));
    }
    life.put("key", std::to_string(epoch), epoch);
  }
}

TEST_F(KvDurableCopy, IsTheFormerOneUntilTheNextIsClaimed) {
  std::uint64_t number = 0;
  {
    CopyLife life(directory());
    (void)life.recover();
    life.put("key", "first", 1);
    number = life.copy().claim().store;
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    CopyLife life(directory());
    ASSERT_TRUE(life.begin(number));
    life.learn("key", "second", 2);
    expect(life.copy(), CopyStanding::former, 1);
    EXPECT_EQ(folders(), 2U);
  }
  {
    CopyLife life(directory());
    ASSERT_TRUE(life.begin(number));
    life.learn("key", "third", 3);
    life.copy().append_forgotten({at(1), 0});
    ASSERT_TRUE(life.copy().claim(CopyStanding::standby, 7));
  }
  EXPECT_EQ(folders(), 1U);
  CopyLife life(directory());
  expect(life.copy(), CopyStanding::standby, 7);
  EXPECT_EQ(life.recover(), 8U);
  EXPECT_EQ(life.newest("key"), "third");
}

// So it is known of a directory that has none that it was lost, and not that there never was one.
TEST_F(KvDurableCopy, SaysThatAFirstOneWasBegun) {
  {
    CopyLife life(directory());
    EXPECT_EQ(life.copy().claim().standing, CopyStanding::none);
    ASSERT_TRUE(life.begin());
    EXPECT_EQ(life.copy().claim().standing, CopyStanding::begun);
  }
  EXPECT_EQ(CopyLife(directory()).copy().claim().standing, CopyStanding::begun);
}

// A version that was copied is one alone, whatever else its transaction wrote; what is prepared stays so.
TEST_F(KvDurableCopy, HasWhatWasCopiedBetweenTheChanges) {
  {
    CopyLife life(directory());
    ASSERT_TRUE(life.begin());
    life.learn("a", "copied", 5);
    Request prepare{.kind = RequestKind::prepare, .session = StoreUnderTest::kSession, .timestamp = at(6)};
    prepare.writes.push_back({.key = "b", .value = "prepared"});
    prepare.servers = {0, 1};
    life.copy().append(prepare.encode());
    life.learn("a", "older", 4);
    ASSERT_TRUE(life.copy().claim(CopyStanding::standby, 1));
  }
  CopyLife life(directory());
  (void)life.recover();
  EXPECT_EQ(life.newest("a"), "copied");
  EXPECT_EQ(life.store().prepared(at(6)).size(), 1U);
}

TEST_F(KvDurableCopy, ReadsWhatAWriteLeftThatWasNotFinished) {
  {
    CopyLife life(directory());
    (void)life.recover();
    ASSERT_TRUE(life.copy().claim(CopyStanding::primary, 1));
  }
  damage(24);
  expect(CopyLife(directory()).copy(), CopyStanding::primary, 1);
  damage(4096 + 24);
  EXPECT_THAT(failure(), HasSubstr("it is damaged"));
}

// The one that is damaged is the one that was written, whichever that was: the other one is the newer by then.
TEST_F(KvDurableCopy, IsWrittenOverTheOlderOfItsTwoPlacesFirst) {
  {
    CopyLife life(directory());
    (void)life.recover();
    ASSERT_TRUE(life.copy().claim(CopyStanding::primary, 1));
  }
  damage(24);
  const Bytes before = read_file(record());
  {
    CopyLife life(directory());
    (void)life.recover();
  }
  Bytes torn = read_file(record());
  std::copy(before.begin() + 4096, before.end(), torn.begin() + 4096);
  write_file(record(), torn);  // the second write did not come to the disk
  expect(CopyLife(directory()).copy(), CopyStanding::alone, 2);
  torn = before;
  write_file(record(), torn);  // nor did the first
  expect(CopyLife(directory()).copy(), CopyStanding::primary, 1);
}

// An empty one in its place would be copied over the other.
TEST_F(KvDurableCopy, IsRefusedWithoutTheJournalThatItNames) {
  {
    CopyLife life(directory());
    (void)life.recover();
  }
  const fs::path folder = directory() / "journal-0000000000000001";
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove(entry.path());
  EXPECT_THAT(failure(), HasSubstr("its journal is not there, and the copy is the only server's of epoch 1"));
  fs::remove_all(folder);
  EXPECT_THAT(failure(), HasSubstr("its journal is not there"));
}

TEST_F(KvDurableCopy, IsNotReplacedByThatOfAnotherStore) {
  std::uint64_t number = 0;
  {
    CopyLife life(directory());
    (void)life.recover();
    life.put("key", "value", 1);
    number = life.copy().claim().store;
    EXPECT_NE(number, 0U);
  }
  {
    CopyLife life(directory());
    EXPECT_FALSE(life.begin(number + 1));
    EXPECT_FALSE(life.copy().keep());
    EXPECT_FALSE(life.copy().claim(CopyStanding::standby, 9));
  }
  CopyLife life(directory());
  expect(life.copy(), CopyStanding::alone, 1);
  (void)life.recover();
  EXPECT_EQ(life.newest("key"), "value");
}

// An operator chose it, or another pool: it must not be replaced unseen.
TEST_F(KvDurableCopy, IsNotReplacedByAServerOfAnEarlierEpoch) {
  std::uint64_t number = 0;
  {
    CopyLife life(directory());
    (void)life.recover();
    ASSERT_TRUE(life.copy().claim(CopyStanding::alone, 7));
    number = life.copy().claim().store;
  }
  EXPECT_FALSE(CopyLife(directory()).begin(number, 6));
  EXPECT_FALSE(CopyLife(directory()).begin(number, 7));
  expect(CopyLife(directory()).copy(), CopyStanding::alone, 7);
  EXPECT_TRUE(CopyLife(directory()).begin(number, 8));
  expect(CopyLife(directory()).copy(), CopyStanding::former, 7);
}

TEST_F(KvDurableCopy, IsRefusedWithoutItsRecord) {
  {
    CopyLife life(directory());
    (void)life.recover();
  }
  fs::remove(record());
  EXPECT_THAT(failure(), HasSubstr("its file copy is missing"));
  EXPECT_EQ(folders(), 1U);
}

TEST_F(KvDurableCopy, TakesOverNoJournalOfAnotherServer) {
  {
    StoreUnderTest memory({.bytes = 128U << 10U});
    const FileJournal journal({.directory = directory()}, {0, 2}, memory.store());
  }
  EXPECT_THAT(failure(), HasSubstr("it is that of server 0 of 2, not of server 1 of 3"));
  EXPECT_EQ(error_of([this] { DurableCopy::expect_none_in(directory()); }), "no error");  // only opened, none claimed
}

TEST_F(KvDurableCopy, IsOfOneSeatOfOnePartition) {
  { CopyLife life(directory()); }
  const auto open_as = [this](const Partition& partition, unsigned seat) {
    return error_of([&] { DurableCopy copy({.directory = directory()}, partition, seat); });
  };
  EXPECT_THAT(open_as({2, 3}, kSeat), HasSubstr("it has copy 2 of server 1 of 3, not copy 2 of server 2 of 3"));
  EXPECT_THAT(open_as({1, 4}, kSeat), HasSubstr("not copy 2 of server 1 of 4"));
  EXPECT_THAT(open_as(kPartition, 0), HasSubstr("not copy 1 of server 1 of 3"));
}

TEST_F(KvDurableCopy, IsHeldByOneProcess) {
  const CopyLife life(directory());
  EXPECT_THAT(failure(), HasSubstr("another server has its journal there"));
}

TEST_F(KvDurableCopy, TakesOverTheJournalOfAServerWithoutAStandby) {
  const auto sole = [this](StoreUnderTest& memory) {
    return std::make_unique<FileJournal>(JournalSettings{.directory = directory(), .sync = SyncPolicy::always},
                                         kPartition, memory.store());
  };
  {
    StoreUnderTest memory({.bytes = 128U << 10U});
    const auto journal = sole(memory);
    Request request{.kind = RequestKind::put, .session = StoreUnderTest::kSession, .timestamp = at(1)};
    request.writes.push_back({.key = "key", .value = "value"});
    journal->append(request.encode(), {});
    ASSERT_TRUE(journal->sync());
  }
  EXPECT_EQ(error_of([this] { DurableCopy::expect_none_in(directory()); }), "no error");
  {
    CopyLife life(directory());
    expect(life.copy(), CopyStanding::alone, 0);
    EXPECT_NE(life.copy().claim().store, 0U);  // it is not taken for a copy of a store that was there before
  }
  // The machine stopped while the files were moved.
  const JournalFileId log{JournalFileKind::log, 1};
  for (const auto& entry : fs::directory_iterator(directory())) {
    if (entry.is_directory()) {
      fs::rename(entry.path() / JournalDirectory::name_of(log), directory() / JournalDirectory::name_of(log));
    }
  }
  EXPECT_THAT(error_of([this] { DurableCopy::expect_none_in(directory()); }), HasSubstr("it has one of two copies"));
  CopyLife life(directory());
  EXPECT_EQ(life.recover(), 1U);
  EXPECT_EQ(life.newest("key"), "value");
}

// After that no process can tell which of the two is newer.
TEST_F(KvDurableCopy, RefusesAJournalBesideACopy) {
  {
    CopyLife life(directory());
    (void)life.recover();
  }
  StoreUnderTest memory({.bytes = 128U << 10U});
  { const FileJournal journal({.directory = directory()}, kPartition, memory.store()); }
  EXPECT_THAT(failure(), HasSubstr("and a journal of a server that has no standby"));
}

}  // namespace
}  // namespace farside::kv::test
