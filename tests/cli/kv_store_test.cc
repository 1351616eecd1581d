// The pool's key-value store as its users meet it: farside up --kv, farside kv, and kv::Client.
#include <csignal>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "farside/base/error.h"
#include "farside/kv/client.h"

#include "kv/protocol/key_id.h"
#include "kv/protocol/requests.h"
#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class KvStore : public PoolTest {
 protected:
  void start() { ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--kv", "16M"}).code(), 0); }

  /// Runs `farside kv ARGUMENTS...` with `input`.
  CommandEnd kv(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), {FARSIDE_COMMAND, "kv"});
    return Command(arguments, input).wait();
  }
  /// The same, and expects that it succeeds, on a busy machine too.
  std::string said(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin() + 1, {"--timeout", "60s"});
    const CommandEnd end = kv(std::move(arguments), input);
    EXPECT_EQ(end.code(), 0) << end.err;
    return end.out;
  }
};

std::string every_byte() {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes.push_back(static_cast<char>(c));
  return bytes;
}

TEST_F(KvStore, KeepsAnyBytes) {
  start();
  const std::string large(3U << 20U, 'x');
  said({"put", "any"}, every_byte());
  said({"put", "large"}, large);
  said({"put", "none", ""});
  EXPECT_EQ(said({"get", "any"}), every_byte());
  EXPECT_EQ(said({"get", "large"}), large);
  EXPECT_EQ(said({"get", "none"}), "");
}

// What mget prints mput reads.
TEST_F(KvStore, GivesAndTakesSeveralKeysAtOnce) {
  start();
  said({"mput", "from", "9", "to", "two words"});
  EXPECT_EQ(said({"mget", "from", "to"}), "from 9\nto \"two words\"\n");
  said({"put", "odd"}, every_byte());
  const std::string pairs = said({"mget", "odd", "from", "to"});
  said({"erase", "odd", "from", "to"});
  EXPECT_EQ(said({"scan"}), "");
  said({"mput"}, pairs);
  EXPECT_EQ(said({"mget", "odd", "from", "to"}), pairs);
}

TEST_F(KvStore, FindsKeysByWhatTheyBeginWith) {
  start();
  said({"mput", "user:1", "a", "user:2", "b", "group:1", "c"});
  std::istringstream lines(said({"scan", "user:"}));
  EXPECT_THAT((std::vector<std::string>{std::istream_iterator<std::string>(lines), {}}),
              UnorderedElementsAre("user:1", "user:2"));
}

TEST_F(KvStore, ForgetsWhatHasLivedLongEnough) {
  start();
  said({"put", "--ttl", "1h", "long", "a"});
  said({"put", "--ttl", "50ms", "short", "b"});
  EXPECT_TRUE(eventually([&] { return kv({"get", "short"}).code() == 1; }));
  EXPECT_TRUE(eventually([&] { return said({"scan"}) == "long\n"; })) << "the servers' clock is another than clients'";
  EXPECT_EQ(said({"get", "long"}), "a");
}

TEST_F(KvStore, TellsWhatIsNotThere) {
  start();
  const CommandEnd absent = kv({"get", "no key"});
  EXPECT_EQ(absent.code(), 1);
  EXPECT_THAT(absent.err, HasSubstr("there is no key \"no key\""));
  said({"put", "a", "1"});
  const CommandEnd one = kv({"mget", "a", "b"});
  EXPECT_EQ(one.code(), 1);
  EXPECT_EQ(one.out, "a 1\n");
  EXPECT_THAT(one.err, HasSubstr("there is no key b"));
}

TEST_F(KvStore, IsUsedWronglyWithCodeTwo) {
  start();
  EXPECT_EQ(kv({"mput", "key without a value"}).code(), 2);
  EXPECT_EQ(kv({"mput"}, "a \"b").code(), 2);
  EXPECT_EQ(kv({"mput", "twice", "1", "twice", "2"}).code(), 2);
  EXPECT_EQ(kv({"put", "", "empty key"}).code(), 2);
}

TEST_F(KvStore, IsMissedWhereThereIsNone) {
  const CommandEnd no_pool = kv({"get", "a"});
  EXPECT_EQ(no_pool.code(), 1);
  EXPECT_THAT(no_pool.err, HasSubstr("start one with farside up --kv SIZE"));
  EXPECT_THAT(no_pool.err, HasSubstr("its nodes here are starting: try again"));
  ASSERT_EQ(up({"--cache", "16M"}).code(), 0);
  EXPECT_THAT(kv({"get", "a"}).err, HasSubstr("start one with farside up --kv SIZE"));
}

TEST_F(KvStore, EndsWithThePool) {
  start();
  EXPECT_EQ(farside({"down"}).code(), 0);
  EXPECT_THAT(runtime_files(), ::testing::IsEmpty());
}

// No server answers, and the command says so in time.
TEST_F(KvStore, DoesNotWaitForServersThatStandStill) {
  start();
  const std::vector<pid_t> nodes = node_processes();
  for (const pid_t node : nodes) stop(node);
  const CommandEnd end = kv({"put", "--timeout", "300ms", "a", "1"});
  for (const pid_t node : nodes) ::kill(node, SIGCONT);
  EXPECT_EQ(end.code(), 1);
  EXPECT_THAT(end.err, HasSubstr("in time"));
}

// A key of that server.
std::string key_at(kv::ServerNumber server, kv::ServerNumber servers) {
  for (int i = 0;; ++i) {
    std::string key = "key" + std::to_string(i);
    if (kv::server_of(kv::key_id(key), servers) == server) return key;
  }
}

// Whichever it is, the others' keys are read and written by new clients, and its own are waited for in time.
TEST_F(KvStore, IsUsedByNewClientsWhileANodeStandsStill) {
  start();
  const std::vector<pid_t> nodes = node_processes();
  for (kv::ServerNumber stopped = 0; stopped < nodes.size(); ++stopped) {
    const std::string healthy = key_at(1 - stopped, 2);
    stop(nodes[stopped]);
    const CommandEnd put = kv({"put", "--timeout", "60s", healthy, "1"});
    const CommandEnd get = kv({"get", "--timeout", "60s", healthy});
    const CommandEnd waiting = kv({"get", "--timeout", "300ms", key_at(stopped, 2)});
    {
      kv::Client client;
      const auto session = client.open_session();
      EXPECT_EQ(session->get(healthy).status, Outcome::done);
    }
    ::kill(nodes[stopped], SIGCONT);
    EXPECT_EQ(put.code(), 0) << put.err;
    EXPECT_EQ(get.out, "1") << get.err;
    EXPECT_EQ(waiting.code(), 1);
    EXPECT_THAT(waiting.err, HasSubstr("in time"));
    said({"put", key_at(stopped, 2), "1"});
  }
}

// Both of a partition's copies are gone for good.
TEST_F(KvStore, IsUsedWithoutAPartitionThatIsLost) {
  ASSERT_EQ(up({"-n", "3", "--cache", "16M", "--kv", "16M", "--kv-copies", "2"}).code(), 0);
  const std::vector<pid_t> nodes = node_processes();
  const std::string healthy = key_at(0, 3);
  said({"put", healthy, "1"});
  for (const std::size_t killed : {1U, 2U}) ASSERT_EQ(::kill(nodes[killed], SIGKILL), 0);
  EXPECT_EQ(kv({"get", "--timeout", "60s", healthy}).out, "1");
  CommandEnd lost = kv({"get", "--timeout", "60s", key_at(1, 3)});
  EXPECT_EQ(lost.code(), 1);
  EXPECT_THAT(lost.err, HasSubstr("server 1 of the key-value store"));
  EXPECT_THAT(lost.err, ::testing::Not(HasSubstr("in time")));
}

// A server that died comes back empty; sessions opened from then on have it.
TEST_F(KvStore, IsThereAgainAfterANodeDied) {
  start();
  kv::Client client;
  const pid_t node = node_processes().front();
  ::kill(node, SIGKILL);
  EXPECT_TRUE(eventually([&] {
    try {
      const auto session = client.open_session();
      return session->put_all(std::vector<kv::Write>{{"a", "1"}, {"b", "2"}, {"c", "3"}}) == kv::PutOutcome::done;
    } catch (const Error&) {
      return false;
    }
  }));
}

// A server that is killed, and a whole pool that was ended.
TEST_F(KvStore, HasWhatItHadWithADirectory) {
  const auto start_with_directory = [this] {
    ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--kv", "16M", "--kv-dir", runtime_dir().parent_path() / "kv",
                  "--kv-sync", "always"})
                  .code(),
              0);
  };
  start_with_directory();
  said({"mput", "a", "1", "b", "2", "c", "3", "d", "4"});
  const pid_t died = node_processes()[1];
  ASSERT_EQ(::kill(died, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return kv({"mget", "a", "b", "c", "d"}).out == "a 1\nb 2\nc 3\nd 4\n"; }));
  said({"put", "a", "5"});
  ASSERT_EQ(farside({"down"}).code(), 0);
  start_with_directory();
  EXPECT_EQ(said({"mget", "a", "b", "c", "d"}), "a 5\nb 2\nc 3\nd 4\n");
}

TEST_F(KvStore, IsSharedByTheThreadsOfAProgram) {
  start();
  kv::Client client;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&client, thread] {
      const auto session = client.open_session();
      const std::string value = std::to_string(thread);
      for (int round = 0; round < 100; ++round) {
        ASSERT_EQ(session->put_all(std::vector<kv::Write>{{"one", value}, {"two", value}, {"three", value}}),
                  kv::PutOutcome::done);
        const auto got = session->get_all(std::vector<std::string_view>{"one", "two", "three"});
        ASSERT_EQ(got.status, Outcome::done);
        EXPECT_EQ(got.value[0].value, got.value[1].value);
        EXPECT_EQ(got.value[0].value, got.value[2].value);
      }
    });
  }
}

}  // namespace
}  // namespace farside::test
