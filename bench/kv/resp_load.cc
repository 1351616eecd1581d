#include "bench/kv/resp_load.h"

#include <chrono>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <fmt/format.h>

namespace farside::bench {

namespace {

using Clock = std::chrono::steady_clock;

std::string key_of(std::uint64_t number) { return fmt::format("key:{:012}", number); }

/// Of three bytes, as redis-benchmark's values.
std::string value_of(std::uint64_t number) { return fmt::format("{:03x}", number % 4096); }

}  // namespace

RespLoad::RespLoad(int port) {
  for (std::size_t i = 0; i < kClients; ++i) connections_.push_back(connect(port));
  redisContext& connection = *connections_.front();
  constexpr std::uint64_t kAtOnce = 100;
  for (std::uint64_t first = 0; first < kKeys; first += kAtOnce) {
    for (std::uint64_t key = first; key < first + kAtOnce; ++key) {
      append(connection, {"SET", key_of(key), value_of(key)});
    }
    flush(connection);
    for (std::uint64_t i = 0; i < kAtOnce; ++i) expect(connection, {"SET", REDIS_REPLY_STATUS, "OK"});
  }
  append(connection, {"DBSIZE"});
  flush(connection);
  expect(connection, {"DBSIZE", REDIS_REPLY_INTEGER, std::to_string(kKeys)});
}

double RespLoad::drive(const std::string& test, std::size_t pipelined, std::size_t requests) {
  std::vector<std::vector<Asked>> asked(kClients);
  std::size_t answered = 0;
  const auto began = Clock::now();
  while (answered < requests) {
    for (std::size_t client = 0; client < kClients; ++client) {
      asked[client].clear();
      for (std::size_t i = 0; i < pipelined; ++i) asked[client].push_back(ask(*connections_[client], test));
      flush(*connections_[client]);
    }
    for (std::size_t client = 0; client < kClients; ++client) {
      for (const Asked& each : asked[client]) expect(*connections_[client], each);
    }
    answered += kClients * pipelined;
  }
  return static_cast<double>(answered) / std::chrono::duration<double>(Clock::now() - began).count();
}

RespLoad::Connection RespLoad::connect(int port) {
  constexpr int kTries = 300;
  for (int i = 0; i < kTries; ++i) {
    Connection connection(redisConnect("127.0.0.1", port));
    if (connection != nullptr && connection->err == 0) return connection;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw std::runtime_error("the server did not start");
}

void RespLoad::append(redisContext& connection, const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  std::vector<std::size_t> lengths;
  for (const std::string& word : words) {
    pointers.push_back(word.data());
    lengths.push_back(word.size());
  }
  const int appended =
      redisAppendCommandArgv(&connection, static_cast<int>(words.size()), pointers.data(), lengths.data());
  if (appended != REDIS_OK) throw std::runtime_error(std::string("Redis: ") + connection.errstr);
}

void RespLoad::flush(redisContext& connection) {
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(&connection, &done) != REDIS_OK) {
      throw std::runtime_error(std::string("Redis: ") + connection.errstr);
    }
  }
}

void RespLoad::expect(redisContext& connection, const Asked& asked) {
  void* taken = nullptr;
  if (redisGetReply(&connection, &taken) != REDIS_OK) {
    throw std::runtime_error(std::string("Redis: ") + connection.errstr);
  }
  const Reply reply(static_cast<redisReply*>(taken));
  const std::string came = reply->type == REDIS_REPLY_INTEGER ? std::to_string(reply->integer)
                           : reply->str == nullptr            ? "nil"
                                                              : std::string(reply->str, reply->len);
  if (reply->type != asked.type || came != asked.reply) {
    throw std::runtime_error(asked.command + " was answered with \"" + came + "\", not \"" + asked.reply + "\"");
  }
}

RespLoad::Asked RespLoad::ask(redisContext& connection, const std::string& test) {
  const auto draw = [this] {
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;  // as drand48's, and quicker
    return (random_ >> 33U) % kKeys;
  };
  const std::uint64_t key = draw();
  if (test == "get") {
    append(connection, {"GET", key_of(key)});
    return {"GET", REDIS_REPLY_STRING, value_of(key)};
  }
  if (test == "set") {
    append(connection, {"SET", key_of(key), value_of(key)});
    return {"SET", REDIS_REPLY_STATUS, "OK"};
  }
  if (test != "mset") throw std::runtime_error("no test: " + test);
  std::vector<std::string> words{"MSET"};
  for (std::size_t i = 0; i < kKeysOfMset; ++i) {
    const std::uint64_t each = draw();
    words.insert(words.end(), {key_of(each), value_of(each)});
  }
  append(connection, words);
  return {"MSET", REDIS_REPLY_STATUS, "OK"};
}

}  // namespace farside::bench
