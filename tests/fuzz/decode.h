// decode.h — what every decoder of bytes from outside promises.
#pragma once

#include <cstdlib>
#include <string_view>

#include "farside/base/error.h"

#include "fabric/seal.h"

namespace farside::fuzz {

inline std::string_view text(const unsigned char* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

/// Refused with an Error, or understood to the last byte: `encoded_again(bytes)` is the same again.
template <class EncodedAgain>
void expect_refused_or_understood(std::string_view bytes, EncodedAgain&& encoded_again) {
  try {
    if (encoded_again(bytes) != bytes) std::abort();
  } catch (const Error&) {
  }
}

/// What decodes encodes to the same again.
template <class Message>
void expect_refused_or_understood(std::string_view bytes) {
  expect_refused_or_understood(bytes, [](std::string_view message) { return Message::decode(message).encode(); });
}

/// As it comes, and with the right checksum, which chance would never find.
template <class Message>
void expect_refused_or_understood(std::string_view bytes, SealKind kind) {
  expect_refused_or_understood<Message>(bytes);
  expect_refused_or_understood<Message>(seal(kind, bytes));
}

}  // namespace farside::fuzz
