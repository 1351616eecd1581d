#include "kv/table/view_values.h"

#include <charconv>
#include <cstring>

#include "farside/base/error.h"

#include "kv/protocol/key_id.h"

namespace farside::kv {

namespace {

[[noreturn]] void refuse(std::string_view key) {
  throw Error({.tried = "read a view",
               .on = "the key \"" + std::string(key) + "\"",
               .why = "its value is none that a table wrote",
               .remedy = "write rows and views by tables alone, and give each view a name of its own"});
}

}  // namespace

std::string shard_key(const View& view, std::uint32_t shard, std::string_view group) {
  return "@" + view.name + "/" + std::to_string(shard) + "/" + std::string(group);
}

std::uint32_t shard_of(const View& view, std::string_view row) {
  return static_cast<std::uint32_t>(key_id(row).low % view.shards);
}

// Each key behind its length.
std::vector<std::string> decode_list(std::string_view key, std::string_view value) {
  std::vector<std::string> rows;
  while (!value.empty()) {
    std::uint32_t bytes = 0;
    if (value.size() < sizeof bytes) refuse(key);
    std::memcpy(&bytes, value.data(), sizeof bytes);
    value.remove_prefix(sizeof bytes);
    if (bytes > value.size()) refuse(key);
    rows.emplace_back(value.substr(0, bytes));
    value.remove_prefix(bytes);
  }
  return rows;
}

std::string encode_list(const std::vector<std::string>& rows) {
  std::string value;
  for (const std::string& row : rows) {
    const auto bytes = static_cast<std::uint32_t>(row.size());
    value.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    value += row;
  }
  return value;
}

std::uint64_t decode_count(std::string_view key, std::string_view value) {
  std::uint64_t count = 0;
  if (value.empty()) return count;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size()) refuse(key);
  return count;
}

std::string changed_count(std::string_view key, std::string_view value, std::size_t added, std::size_t removed) {
  const std::uint64_t before = decode_count(key, value);
  const std::uint64_t most = before + added;
  if (most < before || most < removed) refuse(key);
  return most == removed ? "" : std::to_string(most - removed);
}

}  // namespace farside::kv
