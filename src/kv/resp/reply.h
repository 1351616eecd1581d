// reply.h — writes replies in RESP2.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace farside::kv {

class RespReply {
 public:
  /// Appends to `out`.
  explicit RespReply(std::string& out) : out_(out) {}

  void ok() { out_.append("+OK\r\n"); }
  void status(std::string_view text) { line('+', text); }
  /// `text` begins with a code in capitals ("ERR").
  void error(std::string_view text) {
    const std::size_t begin = out_.size();
    line('-', text);
    std::replace_if(out_.begin() + static_cast<std::ptrdiff_t>(begin), out_.end() - 2, is_line_end, ' ');
  }
  void integer(std::int64_t value) { number(':', value); }
  void bulk(std::string_view bytes) {
    number('$', static_cast<std::int64_t>(bytes.size()));
    out_.append(bytes).append("\r\n");
  }
  void null() { out_.append("$-1\r\n"); }
  /// `count` replies follow.
  void array(std::size_t count) { number('*', static_cast<std::int64_t>(count)); }

  [[nodiscard]] std::size_t bytes() const { return out_.size(); }
  /// Takes back what was written after bytes() was `bytes`.
  void take_back(std::size_t bytes) { out_.resize(bytes); }

 private:
  static bool is_line_end(char c) { return c == '\r' || c == '\n'; }

  void line(char kind, std::string_view text) {
    out_ += kind;
    out_.append(text).append("\r\n");
  }
  void number(char kind, std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
    line(kind, {std::begin(digits), static_cast<std::size_t>(end - std::begin(digits))});
  }

  std::string& out_;
};

}  // namespace farside::kv
