// resp_load.h — clients of a server of the Redis protocol that ask all the time and check every reply.
//
// One thread has all connections: it gives each its requests, and then takes each one's replies. Every key is there
// from the beginning, and its value follows from its number, whichever client wrote it last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hiredis/hiredis.h>

namespace farside::bench {

class RespLoad {
 public:
  static constexpr std::size_t kClients = 50;
  static constexpr std::uint64_t kKeys = 10'000;
  static constexpr std::size_t kKeysOfMset = 10;

  /// Connects to a server on this host, waits until it answers, and writes all keys.
  /// Throws std::runtime_error, here and below, when a reply is not what it should be.
  explicit RespLoad(int port);

  /// `test`: "get", "set" or "mset" of random keys; `pipelined` requests follow each other without waiting.
  /// Returns how many requests a second were answered.
  double drive(const std::string& test, std::size_t pipelined, std::size_t requests);

 private:
  struct Freed {
    void operator()(redisContext* context) const { redisFree(context); }
    void operator()(redisReply* reply) const { freeReplyObject(reply); }
  };
  using Connection = std::unique_ptr<redisContext, Freed>;
  using Reply = std::unique_ptr<redisReply, Freed>;

  /// A request, and what its reply is.
  struct Asked {
    std::string command;
    int type;
    std::string reply;
  };

  [[nodiscard]] static Connection connect(int port);
  static void append(redisContext& connection, const std::vector<std::string>& words);
  static void flush(redisContext& connection);
  static void expect(redisContext& connection, const Asked& asked);
  [[nodiscard]] Asked ask(redisContext& connection, const std::string& test);

  std::vector<Connection> connections_;
  std::uint64_t random_ = 1;
};

}  // namespace farside::bench
