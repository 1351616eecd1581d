// packets.h — DaemonPackets on a socket, as `farside far` sends and receives them.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "farside/base/fd.h"

#include "far/daemon/messages.h"

namespace farside::far {

/// Listens at `path`. The kernel adds the sender's process number to each packet of a connection.
[[nodiscard]] Fd listen_for_programs(const std::string& path);

/// A message from a program: whole, of this version, with as many ranges as it claims, each of whole pages.
struct Received {
  DaemonPacket packet{};
  pid_t process = 0;
  Fd descriptor;  ///< that came with it, if any

  [[nodiscard]] std::span<const AddressRange> ranges() const { return {packet.ranges.data(), packet.count}; }
};

/// Waits for one, as long as the connection lives or until its time-out. None: it ended, or said something else.
[[nodiscard]] std::optional<Received> receive(const Fd& connection);
/// For receive; zero: for ever.
void set_time_out(const Fd& connection, std::chrono::seconds time_out);

/// False when the connection ended.
[[nodiscard]] bool send(const Fd& connection, DaemonPacketKind kind, std::uint64_t value = 0, std::uint64_t extra = 0);
[[nodiscard]] bool send(const Fd& connection, DaemonPacketKind kind, std::span<const AddressRange> ranges);
/// A refusal that does not arrive is of no consequence: the connection has ended.
void refuse(const Fd& connection, std::string_view why);

}  // namespace farside::far
