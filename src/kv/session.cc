#include "farside/kv/session.h"

namespace farside::kv {

Result<Got> Session::get(std::string_view key) {
  const auto got = get_all({&key, 1});
  return {got.status, got.done() ? got.value.front() : Got{}};
}

PutOutcome Session::put(std::string_view key, std::string_view value, std::uint64_t expires_ns) {
  const Write write{.key = key, .value = value, .expires_ns = expires_ns};
  return put_all({&write, 1});
}

PutOutcome Session::erase_all(std::span<const std::string_view> keys) {
  std::vector<Write> writes;
  for (const std::string_view key : keys) writes.push_back({.key = key, .erase = true});
  return put_all(writes);
}

}  // namespace farside::kv
