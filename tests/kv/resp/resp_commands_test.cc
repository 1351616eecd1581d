// What each request is answered, to the byte.
#include <gtest/gtest.h>

#include "kv/resp/client.h"
#include "kv/resp/text.h"
#include "tests/kv/resp/memory_session.h"

namespace farside::kv {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kNow = 1'800'000'000 * kSecond;

// One client whose clock stands still.
class RespCommands : public testing::Test {
 protected:
  RespCommands() { keys_.frozen_ns = kNow; }

  std::string tell(std::string input) {
    std::string output;
    open_ = client_.obey(input, output);
    EXPECT_TRUE(!open_ || input.empty()) << "left over: " << input;
    return output;
  }

  /// Each line of `script`, and what it is answered, line by line.
  void expect(std::initializer_list<std::pair<std::string, std::string>> script) {
    for (const auto& [line, reply] : script) EXPECT_EQ(tell(line + "\r\n"), reply) << line;
  }

  test::MemoryKeys keys_;
  test::MemorySession session_{keys_};
  RespStatus status_{RespSettings{}};
  RespClient client_{session_, status_, 1, "here:1"};
  bool open_ = true;
};

TEST_F(RespCommands, SetsAndGets) {
  expect({{"GET a", "$-1\r\n"},
          {"SET a 1", "+OK\r\n"},
          {"get a", "$1\r\n1\r\n"},
          {"SET a 2 NX", "$-1\r\n"},
          {"SET b 2 XX", "$-1\r\n"},
          {"SET a 2 XX GET", "$1\r\n1\r\n"},
          {"SET c 3 NX GET", "$-1\r\n"},
          {"GET c", "$1\r\n3\r\n"},
          {"SETNX c 4", ":0\r\n"},
          {"SETNX d 4", ":1\r\n"},
          {"GETSET d 5", "$1\r\n4\r\n"},
          {"GETDEL d", "$1\r\n5\r\n"},
          {"GETDEL d", "$-1\r\n"},
          {"SET a", "-ERR wrong number of arguments for 'set' command\r\n"},
          {"SET a 1 NX XX", "-ERR syntax error\r\n"},
          {"SET a 1 EX", "-ERR syntax error\r\n"},
          {"SET a 1 EX x", "-ERR value is not an integer or out of range\r\n"},
          {"SET a 1 EX 0", "-ERR invalid expire time in 'set' command\r\n"},
          {"SET a 1 EX 5 PX 5", "-ERR syntax error\r\n"},
          {"SET a 1 EX 5 EX 6", "+OK\r\n"},
          {"TTL a", ":6\r\n"},
          {"SETEX a 9223372036854775807 1", "-ERR invalid expire time in 'setex' command\r\n"}});
}

TEST_F(RespCommands, HandlesManyKeysAtOnce) {
  expect({{"MSET a 1 b 2 a 3", "+OK\r\n"},
          {"MGET a b c a", "*4\r\n$1\r\n3\r\n$1\r\n2\r\n$-1\r\n$1\r\n3\r\n"},
          {"MSET a", "-ERR wrong number of arguments for 'mset' command\r\n"},
          {"MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n"},
          {"MSETNX x 1 b 2", ":0\r\n"},
          {"EXISTS x a a b", ":3\r\n"},
          {"MSETNX x 1 y 2", ":1\r\n"},
          {"DEL x x nothing", ":1\r\n"},
          {"UNLINK y", ":1\r\n"},
          {"DBSIZE", ":2\r\n"},
          {"TYPE a", "+string\r\n"},
          {"TYPE x", "+none\r\n"},
          {"FLUSHALL", "+OK\r\n"},
          {"DBSIZE", ":0\r\n"}});
}

TEST_F(RespCommands, ExpiresKeys) {
  expect({{"SET a 1 EX 100", "+OK\r\n"},
          {"TTL a", ":100\r\n"},
          {"PTTL a", ":100000\r\n"},
          {"SET a 2 KEEPTTL", "+OK\r\n"},
          {"TTL a", ":100\r\n"},
          {"SET a 2", "+OK\r\n"},
          {"TTL a", ":-1\r\n"},
          {"TTL b", ":-2\r\n"},
          {"EXPIRE a 10", ":1\r\n"},
          {"EXPIRE a 20 NX", ":0\r\n"},
          {"EXPIRE a 5 GT", ":0\r\n"},
          {"PEXPIRE a 5000 LT", ":1\r\n"},
          {"PERSIST a", ":1\r\n"},
          {"PERSIST a", ":0\r\n"},
          {"EXPIRE b 10", ":0\r\n"},
          {"PEXPIREAT a 1800000001500", ":1\r\n"},
          {"PTTL a", ":1500\r\n"},
          {"EXPIRETIME a", ":1800000002\r\n"},
          {"GETEX a PERSIST", "$1\r\n2\r\n"},
          {"TTL a", ":-1\r\n"},
          {"GETEX a EX 7", "$1\r\n2\r\n"},
          {"TTL a", ":7\r\n"}});
  keys_.frozen_ns = kNow + 7 * kSecond;
  expect({{"GET a", "$-1\r\n"}, {"SET a 1 XX", "$-1\r\n"}, {"SET a 1 NX", "+OK\r\n"}, {"EXPIRE a -1", ":1\r\n"}});
  expect({{"EXISTS a", ":0\r\n"}});
}

TEST_F(RespCommands, Counts) {
  expect({{"INCR a", ":1\r\n"},
          {"INCRBY a 41", ":42\r\n"},
          {"DECR a", ":41\r\n"},
          {"DECRBY a 50", ":-9\r\n"},
          {"APPEND a x", ":3\r\n"},
          {"STRLEN a", ":3\r\n"},
          {"INCR a", "-ERR value is not an integer or out of range\r\n"},
          {"SET a 9223372036854775807 EX 5", "+OK\r\n"},
          {"INCR a", "-ERR increment or decrement would overflow\r\n"},
          {"DECR a", ":9223372036854775806\r\n"},
          {"TTL a", ":5\r\n"}});
}

TEST_F(RespCommands, ScansWhatMatches) {
  std::string all;
  for (int i = 0; i < 25; ++i) all += "SET key:" + std::to_string(i) + " x\r\n";
  tell(all + "SET other x\r\n");
  expect({{"KEYS key:2[0-1]", "*2\r\n$6\r\nkey:20\r\n$6\r\nkey:21\r\n"},
          {"SCAN 0 MATCH oth* COUNT 100", "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nother\r\n"},
          {"SCAN 0 COUNT 100 TYPE list", "*2\r\n$1\r\n0\r\n*0\r\n"},
          {"SCAN x", "-ERR invalid cursor\r\n"},
          {"SCAN 0 COUNT 0", "-ERR syntax error\r\n"},
          {"SCAN 0 MATCH", "-ERR syntax error\r\n"}});
}

// All of a MULTI is one put, and what it reads one get before; later commands of it see what earlier ones write.
TEST_F(RespCommands, RunsATransactionAsOnePut) {
  expect({{"MULTI", "+OK\r\n"},
          {"SET a 1", "+QUEUED\r\n"},
          {"INCR a", "+QUEUED\r\n"},
          {"GET a", "+QUEUED\r\n"},
          {"MSET b 1 c 2", "+QUEUED\r\n"},
          {"DEL b", "+QUEUED\r\n"},
          {"PING", "+QUEUED\r\n"}});
  EXPECT_EQ(keys_.gets + keys_.puts, 0U);
  expect({{"EXEC", "*6\r\n+OK\r\n:2\r\n$1\r\n2\r\n+OK\r\n:1\r\n+PONG\r\n"},
          {"MGET a b c", "*3\r\n$1\r\n2\r\n$-1\r\n$1\r\n2\r\n"}});
  EXPECT_EQ(keys_.puts, 1U);
  EXPECT_EQ(keys_.gets, 2U);
}

TEST_F(RespCommands, RefusesATransactionWithAMistake) {
  expect({{"EXEC", "-ERR EXEC without MULTI\r\n"},
          {"DISCARD", "-ERR DISCARD without MULTI\r\n"},
          {"MULTI", "+OK\r\n"},
          {"MULTI", "-ERR MULTI calls can not be nested\r\n"},
          {"SET a 1", "+QUEUED\r\n"},
          {"SET a", "-ERR wrong number of arguments for 'set' command\r\n"},
          {"EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"},
          {"MULTI", "+OK\r\n"},
          {"SET a 1", "+QUEUED\r\n"},
          {"DISCARD", "+OK\r\n"},
          {"EXISTS a", ":0\r\n"},
          {"MULTI", "+OK\r\n"},
          {"EXEC", "*0\r\n"},
          {"MULTI", "+OK\r\n"},
          {"SET a 1", "+QUEUED\r\n"},
          {"CLIENT RENAME me", "-ERR unknown subcommand 'RENAME'. Try CLIENT HELP.\r\n"},
          {"EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n"},
          {"EXISTS a", ":0\r\n"}});
}

// As every refused EXEC does, in Redis as well.
TEST_F(RespCommands, EndsATransactionByAnExecWithAMistake) {
  expect({{"MULTI", "+OK\r\n"},
          {"SET a 1", "+QUEUED\r\n"},
          {"EXEC now", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"},
          {"EXEC", "-ERR EXEC without MULTI\r\n"},
          {"EXISTS a", ":0\r\n"}});
}

// A full store refuses, and nothing of what was refused is told as done.
TEST_F(RespCommands, SaysThatTheStoreIsFullOrSilent) {
  keys_.full_from = 0;
  const std::string oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  expect({{"SET a 1", oom}, {"SET a 1 GET", oom}, {"MULTI", "+OK\r\n"}, {"SET a 1", "+QUEUED\r\n"}, {"EXEC", oom}});
  keys_.answers = false;
  EXPECT_TRUE(tell("SET a 1\r\n").starts_with("-ERR the store did not answer in time"));
  EXPECT_EQ(tell("GET a\r\n"), "-ERR the store did not answer in time\r\n");  // of no write is anything said
}

TEST_F(RespCommands, SaysThatAJournalCannotBeWritten) {
  keys_.is_writable = false;
  for (const char* const command : {"SET a 1\r\n", "SET a 1 GET\r\n", "MSET a 1 b 2\r\n"}) {
    EXPECT_TRUE(tell(command).starts_with("-MISCONF Errors writing to the journal")) << command;
  }
  EXPECT_EQ(tell("GET a\r\n"), "$-1\r\n");
}

// It is no time-out: waiting does not help.
TEST_F(RespCommands, NamesTheServerThatIsLost) {
  keys_.answers = false;
  keys_.is_lost = true;
  EXPECT_TRUE(tell("GET a\r\n").starts_with("-ERR server 1 of the store, on node 1, is lost; keys of other"));
  EXPECT_TRUE(tell("SET a 1\r\n").starts_with("-ERR server 1 of the store, on node 1, is lost: this was written, as"));
  EXPECT_TRUE(tell("INCR a\r\n").starts_with("-ERR server 1 of the store, on node 1, is lost: this was written, as"));
}

TEST_F(RespCommands, AnswersReadsThatFollowEachOtherByOneGet) {
  tell("MSET a 1 b 2\r\n");
  EXPECT_EQ(tell("GET a\r\nGET b\r\nMGET a b\r\nGETT\r\nGET a\r\n"),
            "$1\r\n1\r\n$1\r\n2\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n-ERR unknown command 'GETT', with args beginning with: "
            "\r\n$1\r\n1\r\n");
  EXPECT_EQ(keys_.gets, 2U);
}

// Also when reads are among them, which see the writes before them.
TEST_F(RespCommands, DoesWritesThatFollowEachOtherByOnePut) {
  EXPECT_EQ(tell("SET a 1\r\nGET a\r\nSET a 2\r\nMSET b 3 c 4\r\nGET a\r\nGET b\r\n"),
            "+OK\r\n$1\r\n1\r\n+OK\r\n+OK\r\n$1\r\n2\r\n$1\r\n3\r\n");
  EXPECT_EQ(keys_.puts, 1U);
  EXPECT_EQ(tell("INCR a\r\nSET a x\r\n"), ":3\r\n+OK\r\n");
  keys_.full_from = 0;
  const std::string oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  EXPECT_EQ(tell("SET a 1\r\nGET a\r\nPING\r\nGET a\r\n"), oom + oom + "+PONG\r\n$1\r\nx\r\n");
}

TEST_F(RespCommands, KnowsItsConnection) {
  expect({{"PING", "+PONG\r\n"},
          {"PING \"a b\"", "$3\r\na b\r\n"},
          {"ECHO hi", "$2\r\nhi\r\n"},
          {"SELECT 0", "+OK\r\n"},
          {"SELECT 1", "-ERR DB index is out of range\r\n"},
          {"HELLO 3", "-NOPROTO unsupported protocol version\r\n"},
          {"CLIENT ID", ":1\r\n"},
          {"CLIENT GETNAME", "$-1\r\n"},
          {"CLIENT SETNAME me", "+OK\r\n"},
          {"CLIENT GETNAME", "$2\r\nme\r\n"},
          {"CLIENT SETNAME \"m e\"", "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"},
          {"CLIENT NO", "-ERR unknown subcommand 'NO'. Try CLIENT HELP.\r\n"},
          {"CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"},
          {"AUTH x",
           "-ERR AUTH <password> called without any password configured for the default user. Are you sure your "
           "configuration is correct?\r\n"},
          {"COMMAND INFO nonsense", "*1\r\n$-1\r\n"},
          {"nonsense a b", "-ERR unknown command 'nonsense', with args beginning with: 'a' 'b' \r\n"},
          {"RESET", "+RESET\r\n"},
          {"CLIENT GETNAME", "$-1\r\n"}});
  EXPECT_TRUE(tell("HELLO 2\r\n").starts_with("*14\r\n$6\r\nserver\r\n"));
  EXPECT_EQ(tell("QUIT\r\n"), "+OK\r\n");
  EXPECT_FALSE(open_);
}

TEST_F(RespCommands, HelpsWithSubcommands) {
  expect({{"CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command\r\n"},
          {"CLIENT LIST all", "-ERR syntax error\r\n"},
          {"COMMAND COUNT all", "-ERR wrong number of arguments for 'command|count' command\r\n"},
          {"CONFIG HELP",
           "*5\r\n+CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+GET <pattern> ...\r\n"
           "+    Return the settings whose names match. They are given at the start of the server.\r\n"
           "+HELP\r\n+    Print this help.\r\n"}});
}

// Who has not said the password is told nothing, and may send little.
TEST_F(RespCommands, AsksForThePassword) {
  RespStatus status{RespSettings{.password = "secret"}};
  RespClient client(session_, status, 2, "here:2");
  const auto ask = [&](std::string input) {
    std::string output;
    EXPECT_TRUE(client.obey(input, output));
    return output;
  };
  EXPECT_EQ(ask("GET a\r\n"), "-NOAUTH Authentication required.\r\n");
  EXPECT_EQ(ask("EXEC\r\n"), "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n");
  EXPECT_EQ(ask("AUTH wrong\r\n"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  EXPECT_EQ(ask("AUTH other secret\r\n"), "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  EXPECT_TRUE(ask("HELLO 2\r\n").starts_with("-NOAUTH HELLO"));
  EXPECT_EQ(ask("AUTH secret\r\nGET a\r\n"), "+OK\r\n$-1\r\n");
  EXPECT_EQ(ask("RESET\r\nGET a\r\n"), "+RESET\r\n-NOAUTH Authentication required.\r\n");
  std::string input = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$20000\r\n";
  std::string output;
  EXPECT_FALSE(client.obey(input, output));
  EXPECT_EQ(output, "-ERR Protocol error: unauthenticated bulk length\r\n");
}

// What a web page has its reader's browser send is not obeyed, and what came before it is.
TEST_F(RespCommands, TalksToNoBrowser) {
  std::string input = "SET a 1\r\nPOST / HTTP/1.1\r\nSET a 2\r\n";
  std::string output;
  EXPECT_FALSE(client_.obey(input, output));
  EXPECT_EQ(output, "+OK\r\n");
  RespClient other(session_, status_, 2, "here:2");
  input = "GET / HTTP/1.1\r\nHost: here\r\nSET a 2\r\n";
  output.clear();
  EXPECT_FALSE(other.obey(input, output));
  EXPECT_EQ(output, "-ERR wrong number of arguments for 'get' command\r\n");
  EXPECT_EQ(keys_.values.at("a")->bytes, "1");
}

TEST(RespText, MatchesPatterns) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("h?llo", "hello"));
  EXPECT_TRUE(matches("h[^e]llo", "hallo"));
  EXPECT_FALSE(matches("h[^e]llo", "hello"));
  EXPECT_TRUE(matches("h[a-c]llo", "hbllo"));
  EXPECT_TRUE(matches("a\\*b", "a*b"));
  EXPECT_FALSE(matches("a\\*b", "axb"));
  EXPECT_TRUE(matches("*a*b", "xaxxabxb"));
  EXPECT_FALSE(matches("*a*b", "xaxxabx"));
  EXPECT_EQ(literal_prefix("user:[0-9]"), "user:");
  EXPECT_FALSE(matches(std::string(50, '*') + "b", std::string(10'000, 'a')));  // and soon
}

TEST(RespText, ReadsIntegersAsTheyArePrinted) {
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("0"), 0);
  for (const char* wrong : {"", "-", "+1", "01", "-0", " 1", "1 ", "1x", "9223372036854775808"}) {
    EXPECT_FALSE(parse_integer(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace farside::kv
