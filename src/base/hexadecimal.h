// hexadecimal.h — a number as text of a fixed length, in which texts are ordered as their numbers are.
//
// Stands alone: keys of records and marks of secrets are such texts.
#pragma once

#include <string>
#include <string_view>

namespace farside {

/// Returns two digits for each byte, the highest first. `Number` is unsigned.
template <class Number>
[[nodiscard]] std::string hexadecimal(Number number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(2 * sizeof number, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4U) *digit = kDigits[number & 15U];
  return text;
}

}  // namespace farside
