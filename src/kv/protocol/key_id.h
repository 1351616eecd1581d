// key_id.h — a key's 128 bits: which server has it, where in the index it is, and how versions name their siblings.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace farside::kv {

/// Two keys with one id are not expected (XXH3-128). Readers compare the whole key nevertheless.
struct KeyId {
  std::uint64_t high = 0;  ///< chooses the server
  std::uint64_t low = 0;   ///< chooses the place in its index

  friend auto operator<=>(const KeyId&, const KeyId&) = default;  // NOLINT(modernize-use-nullptr): as in time.h
};
static_assert(sizeof(KeyId) == 16 && std::has_unique_object_representations_v<KeyId>);

struct KeyIdHash {
  std::size_t operator()(const KeyId& key) const { return key.low; }
};

[[nodiscard]] KeyId key_id(std::string_view key);

/// The limit of what is written, and of what is decoded: servers refuse longer keys in requests and records. The errors
/// of key_id.cc and resp/client.cc, and the documents, name it.
inline constexpr std::uint64_t kMaxKeyBytes = 64U << 10U;

/// Throws UsageError on what is no key; `tried`: what was to be done with it.
void check_key(const char* tried, std::string_view key);

using ServerNumber = std::uint32_t;

[[nodiscard]] constexpr ServerNumber server_of(const KeyId& key, ServerNumber servers) {
  return static_cast<ServerNumber>((key.high >> 32U) * servers >> 32U);
}

}  // namespace farside::kv
