// view_values.h — how the shards of views stand in the store: their keys, and their values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "farside/kv/table.h"

namespace farside::kv {

[[nodiscard]] std::string shard_key(const View& view, std::uint32_t shard, std::string_view group);
/// In which shard of a group a row is.
[[nodiscard]] std::uint32_t shard_of(const View& view, std::string_view row);

/// The keys of a shard's rows, sorted. `key` is the shard's, for the Error that is thrown when this is no list.
[[nodiscard]] std::vector<std::string> decode_list(std::string_view key, std::string_view value);
[[nodiscard]] std::string encode_list(const std::vector<std::string>& rows);

/// A count is written in decimal digits, for people's eyes.
[[nodiscard]] std::uint64_t decode_count(std::string_view key, std::string_view value);
[[nodiscard]] std::string changed_count(std::string_view key, std::string_view value, std::size_t added,
                                        std::size_t removed);

}  // namespace farside::kv
