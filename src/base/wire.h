// wire.h — fixed-width little-endian fields and counted texts, as addresses and handles carry them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "farside/base/error.h"

namespace farside {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

class Encoder {
 public:
  template <class Number>
  Encoder& number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  /// A byte that says which it is.
  template <class Enum>
  Encoder& choice(Enum value) {
    return number(static_cast<std::uint8_t>(value));
  }
  /// A 16-bit count, then the characters. Throws Error when there are more than that can count.
  Encoder& text(std::string_view value) {
    if (value.size() > UINT16_MAX) {
      throw Error({"encode", "a text of " + std::to_string(value.size()) + " bytes", "65,535 are the most", ""});
    }
    number(static_cast<std::uint16_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what Encoder wrote. It comes from outside: everything malformed throws Error naming `what`.
class Decoder {
 public:
  Decoder(std::string_view bytes, std::string_view what) : rest_(bytes), what_(what) {}

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  template <class Enum>
  Enum choice(Enum last) {
    const auto value = number<std::uint8_t>();
    expect(value <= static_cast<std::uint8_t>(last), "one of its fields makes no sense");
    return static_cast<Enum>(value);
  }
  bool flag() { return choice(std::uint8_t{1}) != 0; }
  std::string text() { return std::string(take(number<std::uint16_t>())); }

  void expect(bool holds, std::string_view otherwise) const {
    if (!holds) throw Error({"read", std::string(what_), std::string(otherwise), "was it altered on its way?"});
  }
  /// Everything that was not read yet.
  [[nodiscard]] std::string_view rest() const noexcept { return rest_; }
  void expect_end() const { expect(rest_.empty(), "it is longer than it should be"); }

 private:
  std::string_view take(std::size_t bytes) {
    expect(bytes <= rest_.size(), "it is cut short");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
  std::string_view what_;
};

}  // namespace farside
