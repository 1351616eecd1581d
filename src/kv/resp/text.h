// text.h — how Redis reads numbers, names and patterns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace farside::kv {

/// ASCII only.
[[nodiscard]] constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
[[nodiscard]] std::string lower(std::string_view text);
/// `name` is in lower case.
[[nodiscard]] bool is(std::string_view word, std::string_view name);

/// As it would be printed: no sign +, no spaces, no zeros in front.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);

/// Whether all of `text` is as `pattern` says: * ? [abc] [^a-z] and \ before a character that is meant as it is.
/// Takes time in proportion to the product of their lengths at most.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text);
/// The common prefix of everything that matches.
[[nodiscard]] std::string_view literal_prefix(std::string_view pattern);

}  // namespace farside::kv
