#include "far/daemon/packets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/socket_packet.h"
#include "far/pager/page_table.h"
#include "net/local_socket.h"

namespace farside::far {

namespace {

bool transmit(const Fd& connection, const DaemonPacket& packet, std::size_t bytes) {
  ssize_t sent = -1;
  do {
    sent = ::send(connection.get(), &packet, bytes, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes);
}

DaemonPacket packet_of(DaemonPacketKind kind) {
  DaemonPacket packet{};
  packet.kind = kind;
  packet.version = kDaemonVersion;
  return packet;
}

bool is_sound(const DaemonPacket& packet, std::size_t bytes) {
  if (bytes < DaemonPacket::bytes(0) || packet.version != kDaemonVersion) return false;
  if (packet.count > DaemonPacket::kRanges || bytes != DaemonPacket::bytes(packet.count)) return false;
  return std::all_of(packet.ranges.begin(), packet.ranges.begin() + static_cast<std::ptrdiff_t>(packet.count),
                     [](const AddressRange& range) {
                       return range.address % kPageBytes == 0 && range.bytes % kPageBytes == 0 && range.bytes != 0 &&
                              range.address + range.bytes > range.address;
                     });
}

}  // namespace

Fd listen_for_programs(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    throw errno_error("listen for programs on", path);
  }
  net::listen_for_this_user(socket, path);
  return socket;
}

std::optional<Received> receive(const Fd& connection) {
  Received received;
  SocketPacket<1, PacketSender::known> incoming(std::as_writable_bytes(std::span(&received.packet, 1)));
  ssize_t bytes = -1;
  do {
    bytes = ::recvmsg(connection.get(), incoming.message(), MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return std::nullopt;
  received.process = incoming.sender();
  std::size_t descriptors = 0;
  incoming.take_descriptors([&](int fd) {
    received.descriptor = Fd(fd);
    ++descriptors;
  });
  if (descriptors > 1 || !incoming.has_all_data() || !incoming.has_all_descriptors()) return std::nullopt;
  if (!is_sound(received.packet, static_cast<std::size_t>(bytes))) return std::nullopt;
  return received;
}

void set_time_out(const Fd& connection, std::chrono::seconds time_out) {
  const timeval limit{time_out.count(), 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

bool send(const Fd& connection, DaemonPacketKind kind, std::uint64_t value, std::uint64_t extra) {
  DaemonPacket packet = packet_of(kind);
  packet.value = value;
  packet.extra = extra;
  return transmit(connection, packet, DaemonPacket::bytes(0));
}

bool send(const Fd& connection, DaemonPacketKind kind, std::span<const AddressRange> ranges) {
  DaemonPacket packet = packet_of(kind);
  assert_that(ranges.size() <= DaemonPacket::kRanges, "the ranges fit into one packet");
  packet.count = ranges.size();
  std::ranges::copy(ranges, packet.ranges.begin());
  return transmit(connection, packet, DaemonPacket::bytes(ranges.size()));
}

void refuse(const Fd& connection, std::string_view why) {
  DaemonPacket packet = packet_of(DaemonPacketKind::refused);
  packet.count = std::min(why.size(), sizeof packet.ranges);
  std::memcpy(packet.ranges.data(), why.data(), packet.count);
  (void)transmit(connection, packet, DaemonPacket::bytes(0) + packet.count);  // false: the connection has ended
}

}  // namespace farside::far
