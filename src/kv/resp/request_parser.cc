#include "kv/resp/request_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "kv/resp/text.h"

namespace farside::kv {

namespace {

constexpr std::string_view kLineEnd = "\r\n";

// Takes words from a line, and unquotes them in place: they only become shorter. Nothing: a quote has no end.
class LineSplitter {
 public:
  explicit LineSplitter(std::span<char> line) : line_(line) {}

  /// False when a quote has no end, or is not the end of its word.
  bool split(std::vector<std::string_view>& words) {
    for (;;) {
      while (at_ < line_.size() && is_space(line_[at_])) ++at_;
      if (at_ == line_.size()) return true;
      const std::size_t begin = out_ = at_;
      if (!take_word()) return false;
      words.emplace_back(line_.data() + begin, out_ - begin);
    }
  }

 private:
  bool take_word() {
    while (at_ < line_.size() && !is_space(line_[at_])) {
      const char c = line_[at_++];
      if (c != '"' && c != '\'') {
        put(c);
      } else {
        return take_quoted(c) && (at_ == line_.size() || is_space(line_[at_]));
      }
    }
    return true;
  }

  bool take_quoted(char quote) {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == quote) return true;
      if (c == '\\' && at_ < line_.size()) {
        put(quote == '"' ? unescaped() : quoted_once(quote));
      } else {
        put(c);
      }
    }
    return false;
  }

  // In single quotes, a backslash means something before a quote only.
  char quoted_once(char quote) { return line_[at_] == quote ? line_[at_++] : '\\'; }

  char unescaped() {
    if (line_[at_] == 'x' && line_.size() - at_ > 2) {
      const auto high = hex_digit(line_[at_ + 1]);
      const auto low = hex_digit(line_[at_ + 2]);
      if (high && low) {
        at_ += 3;
        return static_cast<char>(*high * 16 + *low);
      }
    }
    const char c = line_[at_++];
    constexpr std::string_view kNames = "nrtba";
    constexpr std::string_view kMeant = "\n\r\t\b\a";
    const auto found = kNames.find(c);
    return found == std::string_view::npos ? c : kMeant[found];
  }

  static std::optional<int> hex_digit(char c) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto found = kDigits.find(lower(c));
    return found == std::string_view::npos ? std::nullopt : std::optional(static_cast<int>(found));
  }

  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0'; }
  void put(char c) {
    assert_in_tests(out_ < at_, "a word becomes only shorter when it is unquoted");
    line_[out_++] = c;
  }

  std::span<char> line_;
  std::size_t at_ = 0;
  std::size_t out_ = 0;
};

}  // namespace

RequestParser::Next RequestParser::next(std::span<char> input, std::vector<std::string_view>& words) {
  words.clear();
  consumed_ = 0;
  if (!error_.empty()) return Next::broken;
  if (is_skipping_) return skip({input.data(), input.size()});
  if (input.empty()) return Next::incomplete;
  return input.front() == '*' ? next_array(input, words) : next_line(input, words);
}

RequestParser::Next RequestParser::next_array(std::span<char> input, std::vector<std::string_view>& words) {
  const std::string_view text(input.data(), input.size());
  if (understood_ == 0) {
    if (const Next counted = take_count(text); counted != Next::request) return counted;
  }
  for (; missing_ > 0; --missing_) {
    if (const Next taken = take_argument(text); taken != Next::request) return taken;
    if (is_skipping_) return skip(text);
  }
  for (const auto& [offset, bytes] : arguments_) words.push_back(text.substr(offset, bytes));
  return finish(understood_);
}

RequestParser::Next RequestParser::take_count(std::string_view input) {
  understood_ = 1;
  const auto [taken, count] = take_number(input, "mbulk count string");
  if (taken == Next::incomplete) understood_ = 0;
  if (taken != Next::request) return taken;
  if (count > static_cast<std::int64_t>(limits_.arguments)) {
    return refuse(std::string(limits_.beyond) + " multibulk length");
  }
  missing_ = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  return Next::request;
}

RequestParser::Next RequestParser::take_argument(std::string_view input) {
  const std::size_t begin = understood_;
  const auto [taken, length] = take_length(input);
  if (taken != Next::request) return taken;
  if (length > limits_.argument_bytes || understood_ + length > limits_.request_bytes) {
    is_skipping_ = true;
    skipped_ = length + kLineEnd.size();
    return Next::request;
  }
  if (input.size() - understood_ < length + kLineEnd.size()) {
    understood_ = begin;
    return Next::incomplete;
  }
  if (input.substr(understood_ + length, kLineEnd.size()) != kLineEnd) return refuse("invalid bulk length");
  arguments_.push_back({understood_, length});
  understood_ += length + kLineEnd.size();
  return Next::request;
}

Result<std::size_t, RequestParser::Next> RequestParser::take_length(std::string_view input) {
  if (understood_ == input.size()) return {Next::incomplete, 0};
  if (input[understood_] != '$') {
    return {refuse(std::string("expected '$', got '") + input[understood_] + "'"), 0};
  }
  ++understood_;
  const auto [taken, bytes] = take_number(input, "bulk count string");
  if (taken == Next::incomplete) --understood_;
  if (taken != Next::request) return {taken, 0};
  if (bytes < 0) return {refuse("invalid bulk length"), 0};
  const auto length = static_cast<std::size_t>(bytes);
  if (length > std::max(limits_.argument_bytes, limits_.skipped_argument_bytes)) {
    return {refuse(std::string(limits_.beyond) + " bulk length"), 0};
  }
  const bool fits = understood_ + length <= limits_.request_bytes;
  if (!fits && limits_.skipped_argument_bytes == 0) return {refuse("too big a request"), 0};
  return {Next::request, length};
}

// `missing_` counts the argument that is skipped. What has come of it is taken from the input at once.
RequestParser::Next RequestParser::skip(std::string_view input) {
  arguments_.clear();
  for (;;) {
    const std::size_t count = std::min(skipped_, input.size() - understood_);
    understood_ += count;
    skipped_ -= count;
    if (skipped_ != 0) break;
    if (missing_ <= 1) {
      is_skipping_ = false;
      missing_ = 0;
      (void)finish(understood_);
      return Next::too_large;
    }
    const auto [taken, length] = take_length(input);
    if (taken == Next::broken) return taken;
    if (taken == Next::incomplete) break;
    --missing_;
    skipped_ = length + kLineEnd.size();
  }
  consumed_ = std::exchange(understood_, 0);
  return Next::incomplete;
}

Result<std::int64_t, RequestParser::Next> RequestParser::take_number(std::string_view input, const char* name) {
  const std::string_view rest = input.substr(understood_, limits_.line_bytes);
  const auto end = rest.find(kLineEnd);
  if (end == std::string_view::npos) {
    return {rest.size() < limits_.line_bytes ? Next::incomplete : refuse(std::string("too big ") + name), 0};
  }
  const auto parsed = parse_integer(rest.substr(0, end));
  if (!parsed) {
    return {refuse(input[understood_ - 1] == '*' ? "invalid multibulk length" : "invalid bulk length"), 0};
  }
  understood_ += end + kLineEnd.size();
  return {Next::request, *parsed};
}

RequestParser::Next RequestParser::next_line(std::span<char> input, std::vector<std::string_view>& words) {
  const std::string_view text(input.data(), std::min(input.size(), limits_.line_bytes));
  const auto end = text.find('\n', understood_);
  if (end == std::string_view::npos) {
    understood_ = text.size();
    return text.size() < limits_.line_bytes ? Next::incomplete : refuse("too big inline request");
  }
  if (!LineSplitter(input.first(end)).split(words)) return refuse("unbalanced quotes in request");
  return finish(end + 1);
}

RequestParser::Next RequestParser::finish(std::size_t consumed) {
  consumed_ = consumed;
  understood_ = 0;
  arguments_.clear();
  return Next::request;
}

RequestParser::Next RequestParser::refuse(std::string reason) {
  error_ = "ERR Protocol error: " + std::move(reason);
  return Next::broken;
}

}  // namespace farside::kv
