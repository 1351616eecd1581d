// socket_packet.h — one packet of a SOCK_SEQPACKET socket, with the descriptors that travel in it (SCM_RIGHTS).
//
// Needs nothing but libc and makes no system call, since the preload libraries include it: they call the kernel
// directly.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace farside {

enum class PacketSender { unknown, known };

/// The argument of one sendmsg or recvmsg. With PacketSender::known there is room for the sender's credentials, which
/// the kernel adds on a socket with SO_PASSCRED.
template <std::size_t kMaxDescriptors, PacketSender kSender = PacketSender::unknown>
class SocketPacket {
 public:
  /// The most descriptors that the kernel delivers: alignment leaves room for one more than an odd number.
  // NOLINTNEXTLINE(bugprone-dynamic-static-initializers): it is a constant expression.
  static constexpr std::size_t kRoom = (CMSG_SPACE(kMaxDescriptors * sizeof(int)) - CMSG_LEN(0)) / sizeof(int);

  /// To receive into `data`, which must outlive this.
  explicit SocketPacket(std::span<std::byte> data) : data_{data.data(), data.size()} {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_;
    message_.msg_controllen = sizeof control_;
  }
  /// To send `data`, which must outlive this, with `descriptors`. Requires at most kMaxDescriptors of them.
  SocketPacket(std::span<const std::byte> data, std::span<const int> descriptors)
      : SocketPacket(std::span(const_cast<std::byte*>(data.data()), data.size())) {  // sendmsg only reads it
    message_.msg_controllen = 0;
    if (descriptors.empty()) return;
    message_.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&message_);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  SocketPacket(const SocketPacket&) = delete;
  SocketPacket& operator=(const SocketPacket&) = delete;

  [[nodiscard]] msghdr* message() { return &message_; }

  // After a recvmsg that succeeded:

  /// Calls `take` with each descriptor that came, at most kRoom, in their order. `take` owns it.
  template <class Take>
  void take_descriptors(Take take) {
    for_each_part(SCM_RIGHTS, [&take](const unsigned char* content, std::size_t bytes) {
      for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
        int descriptor = -1;
        std::memcpy(&descriptor, content + at, sizeof descriptor);
        take(descriptor);
      }
    });
  }

  /// The sender's process, or 0 when the kernel did not add it.
  [[nodiscard]] pid_t sender() requires(kSender == PacketSender::known) {
    ucred known{};
    for_each_part(SCM_CREDENTIALS, [&known](const unsigned char* content, std::size_t bytes) {
      if (bytes >= sizeof known) std::memcpy(&known, content, sizeof known);
    });
    return known.pid;
  }

  /// False: the packet was longer than the data.
  [[nodiscard]] bool has_all_data() const { return (message_.msg_flags & MSG_TRUNC) == 0; }
  /// False: more descriptors were sent than there is room for, or this process may have no more open.
  [[nodiscard]] bool has_all_descriptors() const { return (message_.msg_flags & MSG_CTRUNC) == 0; }

 private:
  template <class Visit>
  void for_each_part(int type, const Visit& visit) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&message_); part != nullptr; part = CMSG_NXTHDR(&message_, part)) {
      if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == type) {
        visit(CMSG_DATA(part), part->cmsg_len - CMSG_LEN(0));
      }
    }
  }

  // NOLINTNEXTLINE(bugprone-dynamic-static-initializers): it is a constant expression.
  static constexpr std::size_t kSenderBytes = kSender == PacketSender::known ? CMSG_SPACE(sizeof(ucred)) : 0;

  alignas(cmsghdr) std::byte control_[kSenderBytes + CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  iovec data_;
  msghdr message_{};
};

}  // namespace farside
