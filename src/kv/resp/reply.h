// reply.h — writes replies in RESP2.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"

namespace farside::kv {

class RespReply {
 public:
  /// Appends to `out`, up to `limit` bytes. What does not fit is left out, and so is all that follows: overflowed().
  explicit RespReply(std::string& out, std::size_t limit = std::string::npos) : out_(out), limit_(limit) {}

  void ok() { append("+OK\r\n"); }
  void status(std::string_view text) { line('+', text); }
  /// `text` begins with a code in capitals ("ERR").
  void error(std::string_view text) {
    const std::size_t begin = out_.size();
    line('-', text);
    if (overflowed_) return;
    std::replace_if(out_.begin() + static_cast<std::ptrdiff_t>(begin), out_.end() - 2, is_line_end, ' ');
  }
  void integer(std::int64_t value) { number(':', value); }
  void bulk(std::string_view bytes) {
    number('$', static_cast<std::int64_t>(bytes.size()));
    if (fits(bytes.size() + 2)) out_.append(bytes).append("\r\n");
  }
  void null() { append("$-1\r\n"); }
  /// `count` replies follow.
  void array(std::size_t count) { number('*', static_cast<std::int64_t>(count)); }

  [[nodiscard]] std::size_t bytes() const { return out_.size(); }
  /// Takes back what was written after bytes() was `bytes`.
  void take_back(std::size_t bytes) {
    assert_that(bytes <= out_.size(), "what is taken back was written");
    out_.resize(bytes);
  }
  /// A reply was left out: what is there cannot be sent.
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

 private:
  static bool is_line_end(char c) { return c == '\r' || c == '\n'; }

  [[nodiscard]] bool fits(std::size_t bytes) {
    overflowed_ = overflowed_ || bytes > limit_ - std::min(limit_, out_.size());
    return !overflowed_;
  }
  void append(std::string_view bytes) {
    if (fits(bytes.size())) out_.append(bytes);
  }
  void line(char kind, std::string_view text) {
    if (!fits(text.size() + 3)) return;
    out_ += kind;
    out_.append(text).append("\r\n");
  }
  void number(char kind, std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
    line(kind, {std::begin(digits), static_cast<std::size_t>(end - std::begin(digits))});
  }

  std::string& out_;
  const std::size_t limit_;
  bool overflowed_ = false;
};

}  // namespace farside::kv
