// What the benchmark's clients of the Redis protocol take for an answer.
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bench/kv/redis_reply.h"
#include "bench/kv/resp_load.h"
#include "kv/resp/resp_server.h"
#include "tests/kv/resp/memory_session.h"

namespace farside::bench {
namespace {

constexpr std::string_view kValue = "value";

/// As MGET is answered.
void expect_values_of(std::array<int, 2> types, std::size_t keys, int type = REDIS_REPLY_ARRAY,
                      std::size_t bytes = kValue.size()) {
  std::string text(kValue);
  std::array<redisReply, 2> values{};
  std::array<redisReply*, 2> pointers{&values[0], &values[1]};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values.at(i).type = types.at(i);
    values.at(i).str = text.data();
    values.at(i).len = text.size();
  }
  redisReply reply{};
  reply.type = type;
  reply.elements = pointers.size();
  reply.element = pointers.data();
  expect_values(reply, keys, bytes);
}

TEST(RedisReplies, HaveAValueForEachKey) {
  constexpr std::array kBoth{REDIS_REPLY_STRING, REDIS_REPLY_STRING};
  EXPECT_NO_THROW(expect_values_of(kBoth, 2));
  EXPECT_THROW(expect_values_of(kBoth, 1), std::runtime_error);
  EXPECT_THROW(expect_values_of(kBoth, 3), std::runtime_error);
  EXPECT_THROW(expect_values_of(kBoth, 2, REDIS_REPLY_STATUS), std::runtime_error);
  EXPECT_THROW(expect_values_of({REDIS_REPLY_STRING, REDIS_REPLY_NIL}, 2), std::runtime_error);
  EXPECT_THROW(expect_values_of(kBoth, 2, REDIS_REPLY_ARRAY, kValue.size() + 1), std::runtime_error);
}

TEST(RedisReplies, AcknowledgeAWrite) {
  const auto expect_ok_of = [](int type, std::string text) {
    redisReply reply{};
    reply.type = type;
    reply.str = text.data();
    reply.len = text.size();
    expect_ok(reply);
  };
  EXPECT_NO_THROW(expect_ok_of(REDIS_REPLY_STATUS, "OK"));
  EXPECT_THROW(expect_ok_of(REDIS_REPLY_STATUS, "QUEUED"), std::runtime_error);
  EXPECT_THROW(expect_ok_of(REDIS_REPLY_STRING, "OK"), std::runtime_error);
  EXPECT_THROW(expect_ok_of(REDIS_REPLY_NIL, ""), std::runtime_error);
}

/// A server whose keys are in `keys`, on a port of this host.
class Server {
 public:
  explicit Server(test::MemoryKeys& keys)
      : server_({"127.0.0.1:0"}, kv::RespSettings{}, 1,
                [&keys] { return std::make_unique<test::MemorySession>(keys); }) {}

  [[nodiscard]] int port() const {
    const std::string address = server_.listeners().front().address();
    return std::stoi(address.substr(address.rfind(':') + 1));
  }

 private:
  kv::RespServer server_;
};

TEST(RespLoad, IsAnsweredByAServerThatKeepsWhatItIsTold) {
  test::MemoryKeys keys;
  const Server server(keys);
  RespLoad load(server.port());
  for (const std::string test : {"get", "set", "mset"}) {
    EXPECT_GT(load.drive(test, 1, RespLoad::kClients), 0) << test;
    EXPECT_GT(load.drive(test, 16, RespLoad::kClients), 0) << test;
  }
  EXPECT_THROW((void)load.drive("no test", 1, 1), std::runtime_error);
}

TEST(RespLoad, NoticesAWrongValueAndAMissingKey) {
  test::MemoryKeys keys;
  const Server server(keys);
  RespLoad load(server.port());
  {
    const std::lock_guard lock(keys.mutex);
    for (auto& [key, value] : keys.values)
      value = std::make_shared<test::MemoryKeys::Value>(test::MemoryKeys::Value{"wrong", 0, value->version});
  }
  EXPECT_THROW((void)load.drive("get", 1, 1), std::runtime_error);
  const Server empty(keys);
  RespLoad another(empty.port());
  {
    const std::lock_guard lock(keys.mutex);
    keys.values.clear();
  }
  EXPECT_THROW((void)another.drive("get", 1, 1), std::runtime_error);
}

TEST(RespLoad, NoticesARefusal) {
  test::MemoryKeys keys;
  const Server server(keys);
  RespLoad load(server.port());
  {
    const std::lock_guard lock(keys.mutex);
    keys.full_from = 0;
  }
  EXPECT_THROW((void)load.drive("set", 1, 1), std::runtime_error);
  EXPECT_THROW((void)load.drive("mset", 1, 1), std::runtime_error);
}

}  // namespace
}  // namespace farside::bench
