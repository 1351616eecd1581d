// What clients and servers of kv say to each other (kv/protocol/messages.h), from any sender.
#include <algorithm>
#include <cstdlib>

#include "kv/protocol/messages.h"

namespace {

template <class Message>
void expect_refused_or_understood(std::span<const std::byte> bytes) {
  const auto message = Message::decode(bytes);
  if (message && !std::ranges::equal(message->encode(), bytes)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  expect_refused_or_understood<farside::kv::Request>(bytes);
  expect_refused_or_understood<farside::kv::Reply>(bytes);
  return 0;
}
