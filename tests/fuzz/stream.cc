// What comes over a stream of kv's (kv/transports/framed_stream.h), in pieces of any size: messages come out as they
// went in, up to the first length that none can have.
//
// Input: the bytes of the first piece and of the others (1 byte each), and then what comes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kv_baselines/transports/framed_stream.h"

namespace farside::fuzz {
namespace {

using Bytes = std::span<const std::byte>;

/// Gives so many bytes at a time, and then none.
class Pieces final : public kv_baselines::Stream {
 public:
  Pieces(Bytes bytes, std::size_t first, std::size_t others) : left_(bytes), next_(first), others_(others) {}

  [[nodiscard]] Moved read(std::span<std::byte> into, Deadline /*deadline*/) override {
    const std::size_t count = std::min({into.size(), left_.size(), next_});
    std::ranges::copy(left_.first(count), into.begin());
    left_ = left_.subspan(count);
    next_ = others_;
    return count;
  }
  [[nodiscard]] Moved write(Bytes bytes) override { return bytes.size(); }
  void await_room(Deadline /*deadline*/) override {}

 private:
  Bytes left_;
  std::size_t next_;
  std::size_t others_;
};

/// The message that `bytes` begin with, when it is whole.
std::optional<Bytes> first_message(Bytes bytes) {
  std::uint32_t length = 0;
  if (bytes.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kv::kMaxMessageBytes || bytes.size() - sizeof length < length) return std::nullopt;
  return bytes.subspan(sizeof length, length);
}

void expect_what_went_in(Bytes bytes, std::size_t first, std::size_t others) {
  kv_baselines::FramedStream stream(std::make_unique<Pieces>(bytes, first, others));
  while (stream.receive(kv_baselines::kAtOnce)) {
    while (const auto message = stream.take()) {
      const auto wanted = first_message(bytes);
      if (!wanted || !std::ranges::equal(*wanted, *message)) std::abort();
      bytes = bytes.subspan(sizeof(std::uint32_t) + wanted->size());
    }
  }
  if (first_message(bytes)) std::abort();
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  farside::fuzz::expect_what_went_in(bytes.subspan(2), data[0] + 1, data[1] + 1);
  return 0;
}
