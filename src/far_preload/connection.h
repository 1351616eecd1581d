// connection.h — packets to farside far and back.
#pragma once

#include <span>
#include <utility>

#include "far/daemon/messages.h"

namespace farside::far_preload {

using far::AddressRange;
using far::DaemonPacket;
using far::DaemonPacketKind;

/// A descriptor of ours, closed with its owner. By system calls alone, so hooks and errno are left out of it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(long fd) : fd_(static_cast<int>(fd)) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int get() const { return fd_; }  ///< or -errno
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Sets the path of the daemon; called once, before anything else here.
void name_daemon(const char* path);

/// Nothing, when farside far is not there.
[[nodiscard]] Descriptor connect_to_daemon(DaemonPacket& welcome);

/// With the descriptor `file`, unless that is negative. False when the connection has ended.
[[nodiscard]] bool send(int connection, const DaemonPacket& packet, int file = -1);
/// Waits as long as the connection allows. False when it has ended, or what came is no packet.
[[nodiscard]] bool receive(int connection, DaemonPacket& packet);

/// From here on receive waits until the connection ends, and no shorter.
void wait_without_limit(int connection);

/// The daemon's answer to one request of this process, about at most DaemonPacket::kRanges ranges.
enum class Answer { done, refused, gone };
[[nodiscard]] Answer ask(DaemonPacketKind kind, std::uint64_t extra, std::span<const AddressRange> ranges);

/// Which every request shows. Known from `joined` on.
void set_token(std::uint64_t token);
[[nodiscard]] DaemonPacket packet_of(DaemonPacketKind kind);

}  // namespace farside::far_preload
