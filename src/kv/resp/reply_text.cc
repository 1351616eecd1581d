#include "kv/resp/reply_text.h"

#include <array>
#include <cstdint>
#include <cstdlib>

namespace farside::kv {

namespace {

constexpr std::string_view kEndOfLine = "\r\n";

std::string_view take_line(std::string_view& replies) {
  const std::size_t end = replies.find(kEndOfLine);
  const std::string_view line = replies.substr(0, end);
  replies.remove_prefix(line.size() + kEndOfLine.size());
  return line;
}

std::int64_t number_of(std::string_view digits) { return std::strtoll(std::string(digits).c_str(), nullptr, 10); }

std::string quoted(std::string_view bytes) {
  constexpr std::array kHexDigits{'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::string text = "\"";
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (c == '\n') {
      text += "\\n";
    } else if (code < ' ' || code == 0x7f) {
      text += {'\\', 'x', kHexDigits.at(code / 16U), kHexDigits.at(code % 16U)};
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string take_bulk(std::string_view& replies, std::int64_t bytes) {
  if (bytes < 0) return "(nil)";
  std::string text = quoted(replies.substr(0, static_cast<std::size_t>(bytes)));
  replies.remove_prefix(static_cast<std::size_t>(bytes) + kEndOfLine.size());
  return text;
}

// Each element behind its number; what has several lines is indented under it.
std::string take_array(std::string_view& replies, std::int64_t count) {
  if (count < 0) return "(nil)";
  if (count == 0) return "(empty array)";
  std::string text;
  for (std::int64_t i = 1; i <= count; ++i) {
    const std::string number = std::to_string(i) + ") ";
    text += (i == 1 ? "" : "\n") + number;
    for (const char c : take_reply_text(replies)) {
      text += c;
      if (c == '\n') text.append(number.size(), ' ');
    }
  }
  return text;
}

}  // namespace

std::string take_reply_text(std::string_view& replies) {
  const std::string_view line = take_line(replies);
  const std::string_view rest = line.substr(1);
  switch (line.front()) {
    case '-': return "(error) " + std::string(rest);
    case ':': return "(integer) " + std::string(rest);
    case '$': return take_bulk(replies, number_of(rest));
    case '*': return take_array(replies, number_of(rest));
    default: return std::string(rest);
  }
}

}  // namespace farside::kv
