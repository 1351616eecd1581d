// link_messages.h — what a client and a server say on their socket after the handshake: where each one's memory is
// (docs/protocols/kv.md, "Links").
//
//   welcome ←   at once: what the server is, and where its memory is
//   join    →   how the client is reached, and where a standby may tell it that it serves
//   joined  ←   since which epoch it does, if it does
//   open    →   a mailbox: where replies go
//   opened  ←   and where requests go
//   close   →   a mailbox, which the client uses no more
//   refused ←   why; the end
//   ship    →   from a primary to its standby: its incarnation
//   shipping ←  where its changes go
//   leave   →   it ships no more, and serves no client
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/mailbox/mailbox_ring.h"
#include "kv/protocol/copy_claim.h"
#include "kv/protocol/key_id.h"
#include "service/service_link.h"
#include "service/service_messages.h"

namespace farside::kv {

/// The beginnings of its sockets' names: those of the first server of each partition, and of the second.
inline constexpr std::string_view kServiceName = "kv";
inline constexpr std::string_view kStandbyName = "kv-standby";

enum class LinkKind : std::uint8_t { welcome, join, joined, open, opened, close, refused, ship, shipping, leave };

inline constexpr service::ServiceMessages<LinkKind> kLinkMessages{"a message of kv's link", LinkKind::leave};

struct Welcome {
  service::ServiceHello hello;
  ServerNumber self = 0;              ///< its partition
  unsigned seat = 0;                  ///< of the partition's two
  std::uint16_t incarnation = 0;      ///< of the process (Team::incarnation)
  bool has_nothing = false;           ///< when it began: it is to be taught what its primary has
  bool goes_on = false;               ///< it began with what its disk has, and serves
  bool waits = false;                 ///< no primary teaches it yet: it may go on with what its disk has
  CopyClaim claim{};                  ///< of its disk
  std::vector<std::string> servers;   ///< where each first seat listens, by partition
  std::vector<std::string> standbys;  ///< and each second one; none: there are none
  std::string memory;                 ///< the store's
  std::string bells;                  ///< its first word wakes the server
  MailboxShape mailbox;
  Duration grace{};
  std::chrono::milliseconds longest_silence{};  ///< until an unresponsive server is dead; 0: no process decides that

  /// It serves since the epoch that it tells.
  [[nodiscard]] bool follows() const noexcept { return seat != 0 || has_nothing || goes_on; }
  [[nodiscard]] std::string encode() const;
};

/// A mailbox as the client asks for it.
struct OpenRequest {
  std::string rings;         ///< the region that replies go to
  std::uint64_t offset = 0;  ///< of the ring in it
  Waking waking = Waking::doorbell;

  [[nodiscard]] std::string encode() const;
};

struct Opened {
  std::uint64_t mailbox = 0;
  std::string ring;  ///< the region that requests go to, from its start on

  [[nodiscard]] std::string encode() const;
};

struct Join {
  std::string fabric;  ///< the client's address there
  std::string told;    ///< a region of a word; empty: it need not be told

  [[nodiscard]] std::string encode() const;
};

/// Those with a single text, number, or nothing.
[[nodiscard]] std::string encode_joined(std::uint64_t epoch);
[[nodiscard]] std::string encode_ship(std::uint16_t incarnation);
[[nodiscard]] std::string encode_shipping(std::string_view ring);
[[nodiscard]] std::string encode_leave();
[[nodiscard]] std::string encode_close(std::uint64_t mailbox);
[[nodiscard]] std::string encode_refused(std::string_view why);

/// These throw Error when a message is malformed. The others have a single field, or none.
[[nodiscard]] Welcome decode_welcome(std::string_view message);
[[nodiscard]] Join decode_join(std::string_view message);
[[nodiscard]] OpenRequest decode_open(std::string_view message);
[[nodiscard]] Opened decode_opened(std::string_view message);

}  // namespace farside::kv
