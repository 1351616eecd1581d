// redis_reply.h — whether a Redis server's reply is what was asked for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>

#include <hiredis/hiredis.h>

namespace farside::bench {

/// Throws std::runtime_error unless it has the values of so many keys, as MGET answers.
inline void expect_values(const redisReply& reply, std::size_t keys) {
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements != keys) {
    throw std::runtime_error("Redis did not answer with a value for each key");
  }
  const auto is_value = [](const redisReply* each) { return each->type == REDIS_REPLY_STRING; };
  if (!std::ranges::all_of(std::span(reply.element, reply.elements), is_value)) {
    throw std::runtime_error("Redis has not got a key");
  }
}

}  // namespace farside::bench
