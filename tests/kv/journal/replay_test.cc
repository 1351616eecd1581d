// What a recovery, or a standby, finds again of changes that were done in another order than that of their timestamps.
#include "kv/server/replay.h"

#include "tests/kv/journal/journal_fixture.h"

namespace farside::kv::test {
namespace {

Answer replay_put(Store& store, std::uint64_t session, std::uint64_t time, std::string_view key,
                  std::uint64_t settled) {
  Request request{.kind = RequestKind::put, .session = session, .timestamp = {time, session}};
  request.settled = settled;
  request.writes.push_back({.key = key, .value = "1"});
  return replay(store, request);
}

// A store that has had many sessions forgets some, and bars what is below them of sessions that it does not know. What
// was done before it forgot them was not barred.
TEST(KvReplay, FindsWhatASessionDidBelowThoseThatAreForgotten) {
  constexpr std::uint64_t kFirst = 1'000;
  constexpr std::uint64_t kMany = 3'000;  // a few times as many as a store remembers
  StoreUnderTest under_test({.bytes = 8U << 20U});
  ASSERT_EQ(replay_put(under_test.store(), 1, 10, "key", 0), Answer::done);
  for (std::uint64_t session = kFirst; session < kFirst + kMany; ++session) {
    ASSERT_EQ(replay_put(under_test.store(), session, 100 + session, "other", 0), Answer::done);
  }
  ASSERT_EQ(replay_put(under_test.store(), 1, 99, "key", 10), Answer::done);
  const auto newest = under_test.store().newest("key");
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->timestamp, (Timestamp{99, 1}));
}

// A put of several keys of one server is one entry.
TEST_F(JournalTest, KeepsAPutOfSeveralKeysAsAWhole) {
  {
    Life life(directory());
    Request put{.kind = RequestKind::put, .session = Life::kSession, .timestamp = Life::at(20)};
    put.writes = {{.key = "a", .value = "1"}, {.key = "b", .value = "2"}};
    EXPECT_EQ(life.logged().carry_out(put, put.encode()).answer, Answer::done);
    for (const char* key : {"a", "b"}) EXPECT_FALSE(life.store().newest(key)) << "it is not kept yet";
    EXPECT_TRUE(life.logged().sync());
    for (const char* key : {"a", "b"}) EXPECT_TRUE(life.store().newest(key));
  }
  const auto values = recovered().values;
  for (const char* key : {"a", "b"}) EXPECT_TRUE(values.contains(key));
}

// A value that has expired is an erasure when it is done again, and then gone: a put below it, that came before it was
// kept, must not come back.
TEST_F(JournalTest, KeepsWhatHasExpiredAboveAnOlderWrite) {
  {
    Life life(directory());
    const auto put = [&life](std::uint64_t time, std::uint64_t expires_ns) {
      Request request{.kind = RequestKind::put, .session = Life::kSession, .timestamp = Life::at(time)};
      request.writes.push_back({.key = "a", .value = "1", .expires_ns = expires_ns});
      return life.logged().carry_out(request, request.encode()).answer;
    };
    EXPECT_EQ(put(20, 1), Answer::done);
    EXPECT_EQ(put(10, 0), Answer::behind);
    EXPECT_TRUE(life.logged().sync());
  }
  EXPECT_FALSE(recovered().values.contains("a"));
}

}  // namespace
}  // namespace farside::kv::test
