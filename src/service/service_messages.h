// service_messages.h — what a service of the pool and its clients say to each other. Each message travels in a frame
// of its own (net/session.h, kind `service`): a byte that says which it is, then its fields.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/wire.h"

namespace farside::service {

/// The longest: names 1024 members of the service.
inline constexpr std::size_t kServiceBodyLimit = 256U << 10U;

/// The messages of one service. What comes in is read from outside: everything malformed throws Error naming `what`.
template <class Kind>
class ServiceMessages {
 public:
  constexpr ServiceMessages(std::string_view what, Kind last) : what_(what), last_(last) {}

  /// One without its fields.
  [[nodiscard]] static Encoder begin(Kind kind) { return Encoder().choice(kind); }

  [[nodiscard]] Kind kind_of(std::string_view message) const { return Decoder(message, what_).choice(last_); }
  /// Its fields, if it is a `kind`.
  [[nodiscard]] Decoder fields_of(std::string_view message, Kind kind) const {
    Decoder in(message, what_);
    in.expect(in.choice(last_) == kind, "it is not the one that was expected");
    return in;
  }
  /// The only field that it has.
  [[nodiscard]] std::string text_of(std::string_view message) const {
    Decoder in = fields_of(message, kind_of(message));
    std::string text = in.text();
    in.expect_end();
    return text;
  }
  template <class Number>
  [[nodiscard]] Number number_of(std::string_view message) const {
    Decoder in = fields_of(message, kind_of(message));
    const auto number = in.number<Number>();
    in.expect_end();
    return number;
  }

 private:
  std::string_view what_;
  Kind last_;
};

}  // namespace farside::service
