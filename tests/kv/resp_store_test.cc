// The Redis protocol in front of farside's own store, of two servers within this process.
#include <gtest/gtest.h>

#include "kv/resp/client.h"
#include "kv/timed_session.h"
#include "tests/kv/local_servers.h"

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

  LocalServers servers_{2};
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

TEST_F(RespOfAStore, RefusesACursorOfNowhere) {
  EXPECT_EQ(tell("SCAN 18446744073709551615"), "*2\r\n$1\r\n0\r\n*0\r\n");
}

}  // namespace
}  // namespace farside::kv
