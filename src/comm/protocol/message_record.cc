#include "comm/protocol/message_record.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace farside::comm {

MessageRecord make_record(std::uint32_t handler, const MessageWords& words, std::span<const std::byte> payload) {
  MessageRecord record;
  record.header.handler = handler;
  record.header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  record.header.words = words;
  record.payload.resize(payload_room(payload.size()));
  std::ranges::copy(payload, record.payload.begin());
  return record;
}

std::uint64_t check_of(const MessageHeader& header, std::span<const std::byte> payload) {
  const auto checked = std::as_bytes(std::span(&header, 1)).subspan(sizeof header.check);
  return XXH3_64bits_withSeed(payload.data(), payload.size(), XXH3_64bits(checked.data(), checked.size()));
}

}  // namespace farside::comm
