// message_record.h — an active message as it lies in a ring.
//
//   0       8        16        20              24       64
//   | check | number | handler | payload bytes | words  | payload ...
//
// It comes from a peer: the receiver copies it once, and checks the copy before it is believed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace farside::comm {

inline constexpr std::size_t kMessageWords = 5;  ///< as many as make the header a line
using MessageWords = std::array<std::uint64_t, kMessageWords>;

struct MessageHeader {
  std::uint64_t check = 0;   ///< of all that follows: tells a whole record from one that is half there
  std::uint64_t number = 0;  ///< among the messages of this sender to this receiver, from 1: tells it from older ones
  std::uint32_t handler = 0;
  std::uint32_t payload_bytes = 0;
  MessageWords words{};
};
static_assert(sizeof(MessageHeader) == 64 && std::has_unique_object_representations_v<MessageHeader>);

struct MessageRecord {
  MessageHeader header;
  std::vector<std::byte> payload;  ///< of header.payload_bytes, and zeros up to a multiple of 8
};

/// The room that a payload takes in a ring: whole words.
[[nodiscard]] constexpr std::uint64_t payload_room(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

[[nodiscard]] MessageRecord make_record(std::uint32_t handler, const MessageWords& words,
                                        std::span<const std::byte> payload);

/// Over the header but for `check`, and the payload.
[[nodiscard]] std::uint64_t check_of(const MessageHeader& header, std::span<const std::byte> payload);

}  // namespace farside::comm
