// request_parser.h — requests as clients of Redis send them: arrays of bulk strings, or a line of words.
//
// Trusts nothing: what is longer than the limits is refused as soon as that is known, before it is stored. A request
// that comes in pieces is not looked at twice. The rest of a request that is too large is skipped as it comes.
//
// hiredis's reader is made for clients: it knows no lines of words, has no limit on sizes, and allocates each argument.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "farside/fabric/channel.h"

namespace farside::kv {

struct RequestLimits {
  std::size_t arguments = std::size_t{1} << 20U;
  std::size_t argument_bytes = std::size_t{16} << 20U;
  std::size_t request_bytes = std::size_t{64} << 20U;
  std::size_t line_bytes = std::size_t{64} << 10U;  ///< of a request as words, and of a length
  /// A request that is too large is skipped, and the connection kept, while its arguments are no longer than this.
  std::size_t skipped_argument_bytes = std::size_t{512} << 20U;
  std::string_view beyond = "invalid";  ///< what a count or length is that goes beyond them
};

class RequestParser {
 public:
  explicit RequestParser(const RequestLimits& limits) : limits_(limits) {}

  enum class Next : std::uint8_t {
    incomplete,  ///< of the input, consumed() bytes are not needed again
    request,
    too_large,  ///< a request that was skipped has ended
    broken,     ///< error() says why; nothing that follows can be understood
  };

  /// Takes a request from the front of `input`, which is what came since the last one. Its words point into `input`,
  /// parts of which are overwritten.
  Next next(std::span<char> input, std::vector<std::string_view>& words);
  /// How much of the input was taken by the latest call.
  [[nodiscard]] std::size_t consumed() const noexcept { return consumed_; }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }

  /// The bytes that it keeps of a request under way, beside the input.
  [[nodiscard]] std::size_t buffered_bytes() const noexcept { return arguments_.capacity() * sizeof(Place); }
  [[nodiscard]] bool is_between_requests() const noexcept { return understood_ == 0 && !is_skipping_; }
  /// Between requests.
  void release_memory() { arguments_ = {}; }

  /// For what comes next.
  void limit(const RequestLimits& limits) { limits_ = limits; }

 private:
  struct Place {
    std::size_t offset;
    std::size_t bytes;
  };

  Next next_array(std::span<char> input, std::vector<std::string_view>& words);
  Next next_line(std::span<char> input, std::vector<std::string_view>& words);
  Next take_count(std::string_view input);
  Next take_argument(std::string_view input);
  /// A number and the end of its line, from `understood_` on. Of what is incomplete nothing is taken.
  Result<std::int64_t, Next> take_number(std::string_view input, const char* name);
  /// The length of the next argument, likewise.
  Result<std::size_t, Next> take_length(std::string_view input);
  /// The rest of a request that is too large, as far as it has come.
  Next skip(std::string_view input);
  Next refuse(std::string reason);
  Next finish(std::size_t consumed);

  RequestLimits limits_;
  std::size_t understood_ = 0;    // bytes of the request under way
  std::size_t missing_ = 0;       // arguments of it
  bool is_skipping_ = false;      // it: it is too large
  std::size_t skipped_ = 0;       // of the argument that is skipped, bytes to come
  std::vector<Place> arguments_;  // that it has so far
  std::size_t consumed_ = 0;
  std::string error_;
};

}  // namespace farside::kv
