// The Redis protocol in front of farside's own store, of two servers within this process.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kv/resp/client.h"
#include "kv/timed_session.h"
#include "tests/kv/service/local_servers.h"
#include "tests/support/shared.h"

namespace farside::kv {
namespace {

class RespOfAStore : public testing::Test {
 protected:
  std::string tell(std::string line) {
    std::string output;
    line += "\r\n";
    EXPECT_TRUE(client_.obey(line, output));
    return output;
  }

  LocalServers servers_{2, {.bytes = 1U << 20U}};
  LocalSession local_{servers_, {.session = 1}};
  TimedSession session_{servers_.fabric(), local_.session, std::chrono::seconds(30)};
  RespStatus status_{RespSettings{}};
  RespClient client_{session_, status_, 1, "here:1"};
};

TEST_F(RespOfAStore, SetsGetsAndErases) {
  EXPECT_EQ(tell("MSET a 1 b 2 c 3"), "+OK\r\n");
  EXPECT_EQ(tell("MGET a b c none"), "*4\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$-1\r\n");
  EXPECT_EQ(tell("DEL a none"), ":1\r\n");
  EXPECT_EQ(tell("EXISTS a b c"), ":2\r\n");
  EXPECT_EQ(tell("INCR b"), ":3\r\n");
  EXPECT_EQ(tell("SET a 5 NX"), "+OK\r\n");
  EXPECT_EQ(tell("SET a 6 NX"), "$-1\r\n");
}

TEST_F(RespOfAStore, KnowsWhenKeysExpire) {
  EXPECT_EQ(tell("SET a 1 EX 100"), "+OK\r\n");
  EXPECT_EQ(tell("TTL a"), ":100\r\n");
  EXPECT_EQ(tell("PERSIST a"), ":1\r\n");
  EXPECT_EQ(tell("TTL a"), ":-1\r\n");
  EXPECT_EQ(tell("SET a 1 PXAT 1"), "+OK\r\n");  // long ago
  EXPECT_EQ(tell("GET a"), "$-1\r\n");
}

TEST_F(RespOfAStore, ScansTheKeysOfAllServers) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(tell("SET key:" + std::to_string(i) + " x"), "+OK\r\n");
  EXPECT_TRUE(tell("KEYS key:*").starts_with("*100\r\n"));
  EXPECT_EQ(tell("DBSIZE"), ":100\r\n");
  EXPECT_NE(tell("INFO keyspace").find("db0:keys=100,"), std::string::npos);

  std::size_t found = 0;
  std::string cursor = "0";
  do {
    const std::string reply = tell("SCAN " + cursor + " MATCH key:*");
    for (std::size_t at = 0; (at = reply.find("key:", at)) != std::string::npos; ++at) ++found;
    const std::size_t begin = reply.find("\r\n", 5) + 2;
    cursor = reply.substr(begin, reply.find("\r\n", begin) - begin);
  } while (cursor != "0");
  EXPECT_GE(found, 100u);

  EXPECT_EQ(tell("FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(tell("KEYS *"), "*0\r\n");
}

// Also keys that have expired, which no scan shows.
TEST_F(RespOfAStore, CountsNoKeyAfterFlushAll) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(tell("SET key:" + std::to_string(i) + " x PX 1"), "+OK\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(tell("FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(tell("DBSIZE"), ":0\r\n");
}

TEST_F(RespOfAStore, SaysHowMuchMemoryTheStoreHas) {
  const auto servers = session_.use();
  ASSERT_EQ(servers.status, Outcome::done);
  const std::string bytes = std::to_string(servers.value[0].bytes_total + servers.value[1].bytes_total);
  EXPECT_EQ(tell("CONFIG GET maxmemory"),
            "*2\r\n$9\r\nmaxmemory\r\n$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n");
  EXPECT_EQ(tell("CONFIG GET maxmemory-policy"), "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n");
}

/// Keys until the store takes no more of them.
class RespOfAFullStore : public RespOfAStore, public testing::WithParamInterface<std::size_t> {
 protected:
  void fill() {
    while (tell("SET key:" + std::to_string(keys_) + " " + value_) == "+OK\r\n") ++keys_;
    ASSERT_GT(keys_, 100);
  }

  const std::string value_ = '"' + std::string(GetParam(), 'v') + '"';
  int keys_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Values, RespOfAFullStore, testing::Values(0, 100, 1000, 5000));

TEST_P(RespOfAFullStore, IsEmptiedByFlushAll) {
  fill();
  EXPECT_EQ(tell("FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(tell("DBSIZE"), ":0\r\n");
  EXPECT_EQ(tell("KEYS *"), "*0\r\n");
}

// In any order: blocks of which others stay are of use as well.
TEST_P(RespOfAFullStore, IsEmptiedByDel) {
  fill();
  constexpr int kStride = 37;
  for (int first = 0; first < kStride; ++first) {
    for (int i = first; i < keys_; i += kStride) ASSERT_EQ(tell("DEL key:" + std::to_string(i)), ":1\r\n") << i;
  }
  EXPECT_EQ(tell("DBSIZE"), ":0\r\n");
}

TEST_P(RespOfAFullStore, TakesSomethingAfterSomeWasErased) {
  fill();
  for (int i = 0; i < keys_ / 2; ++i) ASSERT_EQ(tell("DEL key:" + std::to_string(i)), ":1\r\n") << i;
  const auto takes = [&] { return tell("SET new " + value_) == "+OK\r\n"; };
  EXPECT_TRUE(test::eventually(takes));
}

TEST_F(RespOfAStore, RefusesACursorOfNowhere) {
  EXPECT_EQ(tell("SCAN 18446744073709551615"), "*2\r\n$1\r\n0\r\n*0\r\n");
}

}  // namespace
}  // namespace farside::kv
