#include "node/door_packet.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/assert.h"

namespace farside {

namespace {

// More than any request or reply carries; what exceeds it the kernel closes and reports as MSG_CTRUNC.
constexpr std::size_t kMaxFds = 4;

using ControlBuffer = std::array<std::byte, CMSG_SPACE(kMaxFds * sizeof(int))>;

std::vector<Fd> take_fds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

std::optional<Packet> receive_packet(const Fd& socket, std::span<std::byte> into, int flags) {
  alignas(cmsghdr) ControlBuffer control{};
  iovec data{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t received = -1;
  do {
    received = ::recvmsg(socket.get(), &message, flags | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (received < 0) return Packet{};
  Packet packet;  // an empty one reads as a closed connection, but may carry descriptors
  packet.bytes = static_cast<std::size_t>(received);
  packet.fds = take_fds(message);
  packet.whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return packet;
}

bool send_packet(const Fd& socket, std::span<const std::byte> bytes, std::span<const Fd> fds) {
  assert_that(fds.size() <= kMaxFds, "a packet carries few descriptors");
  alignas(cmsghdr) ControlBuffer control{};
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg reads only; its interface predates const
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const int fd = fds[i].get();
      std::memcpy(CMSG_DATA(part) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

}  // namespace farside
