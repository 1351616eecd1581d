// socket_packet.h — packets on a SOCK_SEQPACKET socket, and the descriptors that travel with them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "farside/base/fd.h"

namespace farside::node {

/// A packet as it arrived.
struct Packet {
  std::size_t bytes = 0;  ///< 0: the other side closed the connection
  bool whole = true;      ///< false: it was longer than the buffer, or not all its descriptors came through
  std::vector<Fd> fds;
};

/// Receives one packet, or nothing when none is there yet (the socket's own time-out passed, or it does not block).
/// A broken connection reads as a closed one.
[[nodiscard]] std::optional<Packet> receive_packet(const Fd& socket, std::span<std::byte> into, int flags = 0);

/// False when the packet could not be sent at once, or the connection is broken.
[[nodiscard]] bool send_packet(const Fd& socket, std::span<const std::byte> bytes, std::span<const Fd> fds = {});

}  // namespace farside::node
