#include "kv/resp/text.h"

#include <algorithm>
#include <charconv>

namespace farside::kv {

namespace {

// Returns the end of the class that begins behind '[' at `at` if `c` is in it. A class that nothing closes ends with
// the pattern.
std::optional<std::size_t> match_class(std::string_view pattern, std::size_t at, char c) {
  const bool inverted = at < pattern.size() && pattern[at] == '^';
  if (inverted) ++at;
  bool found = false;
  for (; at < pattern.size() && pattern[at] != ']'; ++at) {
    if (pattern[at] == '\\' && pattern.size() - at > 1) {
      found |= pattern[++at] == c;
    } else if (pattern.size() - at > 2 && pattern[at + 1] == '-') {
      const auto code = static_cast<unsigned char>(c);
      const auto from = static_cast<unsigned char>(pattern[at]);
      const auto to = static_cast<unsigned char>(pattern[at + 2]);
      found |= code >= std::min(from, to) && code <= std::max(from, to);
      at += 2;
    } else {
      found |= pattern[at] == c;
    }
  }
  return found == inverted ? std::nullopt : std::optional(std::min(at + 1, pattern.size()));
}

// Returns where the pattern goes on if its element at `at`, which is no *, matches `c`.
std::optional<std::size_t> match_one(std::string_view pattern, std::size_t at, char c) {
  switch (pattern[at]) {
    case '?': return at + 1;
    case '[': return match_class(pattern, at + 1, c);
    case '\\':
      if (pattern.size() - at > 1) ++at;
      break;
    default: break;
  }
  return pattern[at] == c ? std::optional(at + 1) : std::nullopt;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return lower(c); });
  return result;
}

bool is(std::string_view word, std::string_view name) {
  return std::ranges::equal(word, name, {}, [](char c) { return lower(c); });
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.starts_with('0') && text != "0") return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

bool matches(std::string_view pattern, std::string_view text) {
  std::optional<std::size_t> star;  // the last one passed: only it need ever be given more
  std::size_t given = 0;            // where what follows it was tried last
  std::size_t at = 0;
  std::size_t next = 0;
  while (next < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      given = next;
      continue;
    }
    const auto matched = at < pattern.size() ? match_one(pattern, at, text[next]) : std::nullopt;
    if (matched) {
      at = *matched;
      ++next;
    } else if (star) {
      at = *star + 1;
      next = ++given;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

std::string_view literal_prefix(std::string_view pattern) { return pattern.substr(0, pattern.find_first_of("*?[\\")); }

}  // namespace farside::kv
