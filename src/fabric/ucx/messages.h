// messages.h — what engines tell each other before they trust each other. Bytes: docs/protocols/fabric_ucx.md.
//
// Addresses of workers and keys travel sealed (seal.h), because UCX crashes on bytes that it did not make. decode
// checks the rest and throws Error.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace farside {

/// Random, drawn by each engine when it starts: names the engine that sends a hello, and tells incarnations apart.
using UcxIdentity = std::array<std::uint64_t, 2>;

/// How to reach an engine.
struct UcxAddress {
  UcxIdentity identity{};
  std::string worker;  ///< UCX's address of its service worker

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static UcxAddress decode(std::string_view bytes);
};

/// Memory of a peer, as every channel needs it before it unpacks the key for an endpoint of its own.
struct UcxRemoteMemory {
  std::uint64_t base = 0;  ///< in the peer's address space
  std::string packed_key;

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static UcxRemoteMemory decode(std::string_view bytes);
};

/// With which an engine's channels begin their hello: its name, and the proof that it is a peer.
struct UcxCredentials {
  UcxIdentity identity;
  std::string secret;  ///< of all engines that may become peers
};

// A channel that opened an endpoint sends a hello and posts nothing else until it was welcomed, so that each process
// can close whatever a peer opened to it. Over TCP, UCX does not tell the channel when that happened: an answer does.
inline constexpr unsigned kHelloMessage = 1;
inline constexpr unsigned kAnswerMessage = 2;

// The most endpoints in a row that a channel opens without the arrival of their hellos. After that the channel takes
// a new worker, whose endpoints are counted from 1 on.
inline constexpr std::uint64_t kMaxMissedHellos = 10'000;

struct UcxHello {
  UcxIdentity identity{};
  std::uint64_t channel = 0;  ///< the engine's number for the one that sends it
  std::uint64_t link = 0;     ///< the channel's number for it
  std::uint64_t nth = 0;      ///< of all endpoints that its worker opened to the peer that it is sent to, from 1 on
  std::string worker;         ///< UCX's address of the channel's worker

  /// `secret` proves to the engine `to`, and to no other, that a process which shares it made the hello.
  [[nodiscard]] std::string encode(std::string_view secret, const UcxIdentity& to) const;
  /// Throws Error as well when it was not made with `secret` for the engine `self`.
  [[nodiscard]] static UcxHello decode(std::string_view bytes, std::string_view secret, const UcxIdentity& self);
};

// Operations that the target's CPU carries out: atomics, and READ and WRITE where all is TCP (operations.h).
inline constexpr unsigned kOperationMessage = 3;
inline constexpr unsigned kResultMessage = 4;

/// The most data in one of those messages. UCX sends it in one piece (8 KiB over TCP, less UCX's headers and these).
inline constexpr std::uint64_t kMaxPieceBytes = 8000;

/// The header of an operation. The data of a WRITE follows it, of large ones in several messages.
struct UcxOperation {
  std::uint64_t ticket;    ///< names what awaits the result; drawn by the channel, never again
  std::uint64_t address;   ///< in the target's address space
  std::uint64_t bytes;     ///< of a READ
  std::uint64_t operand;   ///< of an atomic
  std::uint64_t expected;  ///< of a COMPARE_SWAP
  std::uint64_t kind;      ///< Operation::Kind
};
static_assert(sizeof(UcxOperation) == 48 && std::has_unique_object_representations_v<UcxOperation>);

/// The header of a result, or of a piece of one, whose data follows it.
struct UcxResult {
  std::uint64_t ticket;
  std::uint64_t offset;  ///< of the piece
};
static_assert(sizeof(UcxResult) == 16 && std::has_unique_object_representations_v<UcxResult>);

struct UcxAnswer {
  std::uint64_t link;
  std::uint64_t welcome;  ///< 1, or 0: go away
};
static_assert(sizeof(UcxAnswer) == 16 && std::has_unique_object_representations_v<UcxAnswer>);

}  // namespace farside
