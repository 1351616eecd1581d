// A disk that has not what was written to it, which is noticed while the server runs and still has all in memory.
#include <string>

#include <gtest/gtest.h>

#include "tests/kv/journal/journal_fixture.h"
#include "tests/support/shared.h"

namespace farside::kv::test {
namespace {

using farside::test::eventually;

class KvScrub : public JournalTest {
 protected:
  static constexpr auto kAlways = std::chrono::milliseconds(0);
  static constexpr std::uint64_t kLeastLogBytes = 4U << 10U;
  [[nodiscard]] static JournalSettings settings() {
    return {.sync = SyncPolicy::always, .least_log_bytes = kLeastLogBytes, .between_scrubs = kAlways};
  }
  static void write(Life& life, std::uint64_t from, std::uint64_t until) {
    for (std::uint64_t time = from; time < until; ++time) {
      ASSERT_EQ(life.put("key " + std::to_string(time % 7), std::string(100, 'v'), time), Answer::done);
      (void)life.pass(StoreUnderTest::kGrace);
      (void)life.logged().step();
    }
  }
  [[nodiscard]] static bool comes_to(Life& life, JournalState state) {
    return eventually([&] {
      (void)life.logged().step();
      return life.journal().state() == state;
    });
  }
  /// What another life would find here, while this one holds the directory.
  [[nodiscard]] Contents recovered_copy() const {
    const std::filesystem::path copy = directory().string() + " copied";
    std::filesystem::copy(directory(), copy, std::filesystem::copy_options::recursive);
    return Life(copy).contents();
  }
  [[nodiscard]] std::filesystem::path newest(JournalFileKind kind) const {
    std::filesystem::path newest;
    for (const auto& entry : std::filesystem::directory_iterator(directory())) {
      const bool is_kind = entry.path().filename().string().starts_with(kind == JournalFileKind::log ? "log" : "snap");
      if (is_kind && entry.path().extension().empty() && entry.path() > newest) newest = entry.path();
    }
    return newest;
  }
  static void damage(const std::filesystem::path& file) {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(sizeof(JournalFileHead) + sizeof(JournalEntryHead) + 3));
    stream.put('!');
  }
};

TEST_F(KvScrub, WritesAnewWhatADiskHasLostOfALog) {
  Life life(directory(), settings());
  write(life, 1, 5);
  damage(newest(JournalFileKind::log));
  EXPECT_TRUE(comes_to(life, JournalState::damaged));
  EXPECT_TRUE(comes_to(life, JournalState::sound));
  EXPECT_EQ(recovered_copy(), life.contents());
}

TEST_F(KvScrub, WritesAnewWhatADiskHasLostOfASnapshot) {
  Life life(directory(), settings());
  write(life, 1, 300);
  EXPECT_TRUE(eventually([&] {
    const auto snapshot = newest(JournalFileKind::snapshot);  // a later one may take its place just then
    if (!snapshot.empty()) damage(snapshot);
    (void)life.logged().step();
    return life.journal().state() == JournalState::damaged;
  }));
  EXPECT_TRUE(comes_to(life, JournalState::sound));
  EXPECT_EQ(recovered_copy(), life.contents());
}

TEST_F(KvScrub, NoticesALogThatBecameShorter) {
  Life life(directory(), settings());
  write(life, 1, 5);
  const auto log = newest(JournalFileKind::log);
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 8);
  EXPECT_TRUE(comes_to(life, JournalState::damaged));
}

// While changes are written, and snapshots take the place of logs.
TEST_F(KvScrub, FindsNothingWhereThereIsNothing) {
  Life life(directory(), settings());
  for (std::uint64_t time = 1; time < 2000; time += 20) {
    write(life, time, time + 20);
    ASSERT_EQ(life.journal().state(), JournalState::sound);
  }
}

}  // namespace
}  // namespace farside::kv::test
