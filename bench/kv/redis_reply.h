// redis_reply.h — whether a Redis server's reply is what was asked for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string_view>

#include <hiredis/hiredis.h>

namespace farside::bench {

/// Throws std::runtime_error unless it has the values of so many keys, of so many bytes each, as MGET answers.
inline void expect_values(const redisReply& reply, std::size_t keys, std::size_t value_bytes) {
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements != keys) {
    throw std::runtime_error("Redis did not answer with a value for each key");
  }
  const auto is_value = [](const redisReply* each) { return each->type == REDIS_REPLY_STRING; };
  if (!std::ranges::all_of(std::span(reply.element, reply.elements), is_value)) {
    throw std::runtime_error("Redis has not got a key");
  }
  const auto is_whole = [value_bytes](const redisReply* each) { return each->len == value_bytes; };
  if (!std::ranges::all_of(std::span(reply.element, reply.elements), is_whole)) {
    throw std::runtime_error("Redis has a value of another length");
  }
}

/// Throws std::runtime_error unless it says that a write is done.
inline void expect_ok(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_STATUS || std::string_view(reply.str, reply.len) != "OK") {
    throw std::runtime_error("Redis did not acknowledge a write");
  }
}

}  // namespace farside::bench
