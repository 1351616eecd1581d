// Rows and their views: whatever is written, and by however many at once, views say what rows say.
#include "farside/kv/table.h"

#include <map>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "kv/table/view_values.h"
#include "kv/timed_session.h"
#include "tests/kv/resp/memory_session.h"
#include "tests/kv/service/local_servers.h"

namespace farside::kv {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> words_of(std::string_view value) {
  std::vector<std::string> words;
  while (!value.empty()) {
    const std::size_t end = std::min(value.find(' '), value.size());
    words.emplace_back(value.substr(0, end));
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return words;
}

View words(std::string name, View::Kind kind, std::uint32_t shards = 1) {
  return {.name = std::move(name),
          .rows = "row ",
          .groups = [](std::string_view /*key*/, std::string_view value) { return words_of(value); },
          .kind = kind,
          .shards = shards};
}

class Tables : public testing::TestWithParam<std::uint32_t> {
 protected:
  std::vector<View> views() {
    return {words("list", View::Kind::list, GetParam()), words("count", View::Kind::count, GetParam())};
  }
  std::vector<std::string> listed(std::string_view group) {
    const auto keys = table_.keys("list", group);
    EXPECT_EQ(keys.status, Outcome::done);
    return keys.value;
  }
  std::uint64_t counted(std::string_view view, std::string_view group) {
    const auto count = table_.count(view, group);
    EXPECT_EQ(count.status, Outcome::done);
    return count.value;
  }

  test::MemoryKeys keys_;
  test::MemorySession session_{keys_};
  Table table_{session_, views()};
};

TEST_P(Tables, ListAndCountWhatIsWritten) {
  EXPECT_EQ(table_.put("row 1", "red blue"), PutOutcome::done);
  EXPECT_EQ(table_.put("row 2", "red"), PutOutcome::done);
  EXPECT_THAT(listed("red"), ElementsAre("row 1", "row 2"));
  EXPECT_THAT(listed("blue"), ElementsAre("row 1"));
  EXPECT_EQ(counted("count", "red"), 2u);
  EXPECT_EQ(counted("list", "red"), 2u);
  EXPECT_EQ(counted("count", "green"), 0u);
}

TEST_P(Tables, ForgetWhatIsReplacedOrErased) {
  EXPECT_EQ(table_.put("row 1", "red blue"), PutOutcome::done);
  EXPECT_EQ(table_.put("row 1", "blue green"), PutOutcome::done);
  EXPECT_THAT(listed("red"), IsEmpty());
  EXPECT_EQ(counted("count", "red"), 0u);
  EXPECT_EQ(counted("count", "green"), 1u);
  EXPECT_EQ(table_.erase("row 1"), PutOutcome::done);
  EXPECT_EQ(table_.erase("row 1"), PutOutcome::done);  // there is nothing to take out any more
  for (const char* group : {"red", "blue", "green"}) EXPECT_THAT(listed(group), IsEmpty());
  for (const auto& [key, value] : keys_.values) ADD_FAILURE() << key << " is left";
}

TEST_P(Tables, WriteSeveralRowsAtOnce) {
  const Write rows[] = {
      {.key = "row 1", .value = "red"}, {.key = "row 2", .value = "red"}, {.key = "else", .value = "red"}};
  const auto puts_before = keys_.puts;
  EXPECT_EQ(table_.put_all(rows), PutOutcome::done);
  EXPECT_EQ(keys_.puts, puts_before + 1);
  EXPECT_THAT(listed("red"), ElementsAre("row 1", "row 2"));
  EXPECT_EQ(counted("count", "red"), 2u);
}

TEST_P(Tables, ShowTheRowsOfAGroup) {
  EXPECT_EQ(table_.put("row 1", "red blue"), PutOutcome::done);
  EXPECT_EQ(table_.put("row 2", "red"), PutOutcome::done);
  const auto rows = table_.rows("list", "red");
  EXPECT_EQ(rows.status, Outcome::done);
  ASSERT_EQ(rows.value.size(), 2u);
  EXPECT_EQ(rows.value[0].key, "row 1");
  EXPECT_EQ(rows.value[0].value, "red blue");
  EXPECT_EQ(rows.value[1].value, "red");
}

TEST_P(Tables, KeepWhatTheCallerExpects) {
  const Write first{.key = "row 1", .value = "red", .expected = Timestamp{}};
  EXPECT_EQ(table_.put_all({&first, 1}), PutOutcome::done);
  EXPECT_EQ(table_.put_all({&first, 1}), PutOutcome::differs);
  EXPECT_EQ(counted("count", "red"), 1u);
}

TEST_P(Tables, RefuseWhatTheyCannotKeepTrue) {
  const Write expires{.key = "row 1", .value = "red", .expires_ns = 1};
  EXPECT_THROW((void)table_.put_all({&expires, 1}), UsageError);
  EXPECT_THROW((void)table_.keys("count", "red"), UsageError);
  EXPECT_THROW((void)table_.keys("none", "red"), UsageError);
  EXPECT_THROW(Table(session_, {words("a", View::Kind::list), words("a", View::Kind::list)}), UsageError);
  EXPECT_THROW(Table(session_, {words("a/b", View::Kind::list)}), UsageError);
  EXPECT_THROW(Table(session_, {words("a", View::Kind::list, 0)}), UsageError);
}

TEST_P(Tables, NoticeWhatNoTableWrote) {
  for (std::uint32_t shard = 0; shard < GetParam(); ++shard) {
    EXPECT_EQ(session_.put("@list/" + std::to_string(shard) + "/red", "\xff\xff\xff\xffx"), PutOutcome::done);
    EXPECT_EQ(session_.put("@count/" + std::to_string(shard) + "/red", "many"), PutOutcome::done);
  }
  EXPECT_THROW((void)table_.keys("list", "red"), Error);
  EXPECT_THROW((void)table_.count("count", "red"), Error);
  EXPECT_THROW((void)table_.put("row 1", "red"), Error);
}

// Of two writers at once each reads, and then one is refused: as its own session sees it.
TEST_P(Tables, LoseNothingWhenOthersWriteTheSameViews) {
  constexpr int kThreads = 4;
  constexpr int kPuts = 50;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      test::MemorySession session(keys_);
      Table table(session, views());
      for (int i = 0; i < kPuts; ++i) {
        const std::string key = "row " + std::to_string(thread) + ":" + std::to_string(i);
        EXPECT_EQ(table.put(key, "red"), PutOutcome::done);
        const bool is_replaced = i % 2 == 0;
        const bool is_erased = i % 5 == 0;
        EXPECT_TRUE(!is_replaced || table.put(key, "blue") == PutOutcome::done);
        EXPECT_TRUE(!is_erased || table.erase(key) == PutOutcome::done);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counted("count", "red"), kThreads * kPuts * 4u / 10);
  EXPECT_EQ(counted("count", "blue"), kThreads * kPuts * 4u / 10);
  EXPECT_EQ(listed("red").size(), counted("count", "red"));
  EXPECT_EQ(listed("blue").size(), counted("count", "blue"));
}

// Rows and views lie on several servers: what one session reads is whole whenever the other writes.
TEST(TablesOfAStore, ShowRowsAndViewsOfOneMoment) {
  LocalServers servers(3);
  LocalSession one(servers, {.session = 1});
  LocalSession other(servers, {.session = 2});
  TimedSession writing(servers.fabric(), one.session, std::chrono::seconds(30));
  TimedSession reading(servers.fabric(), other.session, std::chrono::seconds(30));
  const std::vector<View> views = {words("list", View::Kind::list, 2), words("count", View::Kind::count)};
  Table written(writing, views);
  Table read(reading, views);
  for (int i = 0; i < 30; ++i) {
    const std::string key = "row " + std::to_string(i % 10);
    EXPECT_EQ(i % 3 == 2 ? written.erase(key) : written.put(key, "red"), PutOutcome::done);
    const auto rows = read.rows("list", "red");
    const auto count = read.count("count", "red");
    EXPECT_EQ(rows.status, Outcome::done);
    EXPECT_EQ(count.status, Outcome::done);
    EXPECT_EQ(rows.value.size(), count.value);
    for (const Row& row : rows.value) EXPECT_EQ(row.value, "red") << row.key;
  }
}

INSTANTIATE_TEST_SUITE_P(OfShards, Tables, testing::Values(1u, 3u));

}  // namespace
}  // namespace farside::kv
