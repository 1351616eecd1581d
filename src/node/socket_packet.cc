#include "node/socket_packet.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/socket.h>

#include "base/assert.h"
#include "base/socket_packet.h"

namespace farside::node {

namespace {

// More than any request or reply carries; what exceeds it the kernel closes and reports as MSG_CTRUNC.
constexpr std::size_t kMaxFds = 4;

}  // namespace

std::optional<Packet> receive_packet(const Fd& socket, std::span<std::byte> into, int flags) {
  SocketPacket<kMaxFds> incoming(into);
  ssize_t received = -1;
  do {
    received = ::recvmsg(socket.get(), incoming.message(), flags | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (received < 0) return Packet{};
  Packet packet;  // an empty one reads as a closed connection, but may carry descriptors
  packet.bytes = static_cast<std::size_t>(received);
  incoming.take_descriptors([&packet](int fd) { packet.fds.emplace_back(fd); });
  packet.whole = incoming.has_all_data() && incoming.has_all_descriptors();
  return packet;
}

bool send_packet(const Fd& socket, std::span<const std::byte> bytes, std::span<const Fd> fds) {
  assert_that(fds.size() <= kMaxFds, "a packet carries few descriptors");
  std::array<int, kMaxFds> descriptors{};
  std::ranges::transform(fds, descriptors.begin(), &Fd::get);
  SocketPacket<kMaxFds> packet(bytes, std::span(descriptors).first(fds.size()));
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket.get(), packet.message(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

}  // namespace farside::node
