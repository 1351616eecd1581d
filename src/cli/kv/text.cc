#include "cli/kv/text.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "farside/base/error.h"

namespace farside::cli {

namespace {

constexpr std::string_view kEscaped = "\"\\\n\t\r";
constexpr std::string_view kLetters = "\"\\ntr";  // that stand for them

bool is_plain(char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; }

/// Reads one line, from the left.
class WordReader {
 public:
  WordReader(std::string_view line, std::string_view what) : rest_(line), what_(what) {}

  [[nodiscard]] bool skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r')) take();
    return !rest_.empty();
  }

  std::string word() {
    if (rest_.front() == '"') return quoted();
    const auto end = std::min(rest_.find_first_of(" \t\r"), rest_.size());
    std::string plain(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return plain;
  }

 private:
  std::string quoted() {
    std::string bytes;
    take();
    for (char c = take(); c != '"'; c = take()) bytes.push_back(c == '\\' ? escaped() : c);
    return bytes;
  }

  char escaped() {
    const char letter = take();
    if (letter == 'x') return hexadecimal();
    const auto place = kLetters.find(letter);
    if (place == std::string_view::npos) refuse("\\" + std::string(1, letter) + " stands for nothing");
    return kEscaped[place];
  }

  char hexadecimal() {
    const std::string digits{take(), take()};
    unsigned value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (code != std::errc{} || end != digits.data() + digits.size()) refuse("\\x" + digits + " is no byte");
    return static_cast<char>(value);
  }

  char take() {
    if (rest_.empty()) refuse("a word between quotes does not end");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw UsageError({"read", std::string(what_), why, R"(write "two words", \", \\, \n, \t, \r or \x00)"});
  }

  std::string_view rest_;
  std::string_view what_;
};

}  // namespace

std::string kv_word(std::string_view bytes) {
  if (!bytes.empty() && std::ranges::all_of(bytes, is_plain)) return std::string(bytes);
  std::string text = "\"";
  for (const char c : bytes) {
    if (const auto place = kEscaped.find(c); place != std::string_view::npos) {
      text += {'\\', kLetters[place]};
    } else if (c < ' ' || c > '~') {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::vector<std::string> kv_words(std::string_view line, std::string_view what) {
  std::vector<std::string> words;
  WordReader reader(line, what);
  while (reader.skip_blanks()) words.push_back(reader.word());
  return words;
}

}  // namespace farside::cli
