// daemon_client.h — the library's part of docs/protocols/far_daemon.md, played by hand: nothing is hooked.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "farside/far/hint.h"

#include "far/daemon/messages.h"

namespace farside::far::client {

inline constexpr std::size_t kPageBytes = 4096;

[[noreturn]] inline void give_up(const char* what) {
  std::perror(what);
  std::_Exit(2);
}

inline DaemonPacket packet_of(DaemonPacketKind kind, std::uint64_t value = 0) {
  DaemonPacket packet{};
  packet.kind = kind;
  packet.version = kDaemonVersion;
  packet.value = value;
  return packet;
}

inline bool receive(int socket, DaemonPacket& packet) { return ::recv(socket, &packet, sizeof packet, 0) > 0; }

inline void send(int socket, const DaemonPacket& packet, int descriptor = -1) {
  iovec data{const_cast<DaemonPacket*>(&packet), DaemonPacket::bytes(packet.count)};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return;
  if (errno == EPIPE) ::pause();  // the daemon is gone: the dropper is about to kill this process
  give_up("send");
}

inline void expect(int socket, DaemonPacketKind kind, DaemonPacket& packet) {
  if (receive(socket, packet) && packet.kind == kind) return;
  if (packet.kind == DaemonPacketKind::refused) {
    std::fprintf(stderr, "refused: %.*s\n", static_cast<int>(packet.count),
                 reinterpret_cast<const char*>(packet.ranges.data()));
  }
  std::fprintf(stderr, "no answer of kind %u\n", static_cast<unsigned>(kind));
  std::_Exit(3);
}

inline int open_userfaultfd() {
  const auto fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (fd >= 0) return fd;
  const int device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  const int from_device = device < 0 ? -1 : ::ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
  if (device >= 0) ::close(device);
  if (from_device < 0) give_up("userfaultfd");
  return from_device;
}

inline int connect_to_daemon(const char* path, DaemonPacket& welcome) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) give_up("connect");
  expect(socket, DaemonPacketKind::welcome, welcome);
  return socket;
}

/// An address as packets have it.
inline std::byte* pointer_to(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// The arena of this process, and the thread that takes its pages away.
class FarMemory {
 public:
  explicit FarMemory(const char* path, std::span<std::byte> static_array = {}) : path_(path) {
    DaemonPacket welcome{};
    const int connection = connect_to_daemon(path_, welcome);
    arena_ = {0, welcome.value};
    void* const place =
        ::mmap(nullptr, arena_.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) give_up("mmap");
    ::madvise(place, arena_.bytes, MADV_NOHUGEPAGE);
    ::madvise(place, arena_.bytes, MADV_DONTFORK);
    arena_.address = reinterpret_cast<std::uint64_t>(place);
    ranges_.push_back(arena_);
    if (!static_array.empty()) {
      ranges_.push_back({reinterpret_cast<std::uint64_t>(static_array.data()), static_array.size()});
    }
    join(connection);
  }

  [[nodiscard]] std::byte* base() const { return pointer_to(arena_.address); }
  [[nodiscard]] std::uint64_t& word(std::size_t page, std::size_t i) const {
    return *reinterpret_cast<std::uint64_t*>(base() + page * kPageBytes + i * 8);
  }

  [[nodiscard]] const AddressRange& arena() const { return arena_; }
  [[nodiscard]] std::uint64_t token() const { return token_; }

  void discard(std::size_t page, std::size_t count) { expect_done(ask(DaemonPacketKind::discard, page, count)); }
  /// Returns the connection, over which the answer comes.
  [[nodiscard]] int ask(DaemonPacketKind kind, std::size_t page, std::size_t count, Hint hint = Hint::none) const {
    DaemonPacket packet{};
    const int socket = connect_to_daemon(path_, packet);
    packet = packet_of(kind, token_);
    packet.extra = static_cast<std::uint64_t>(hint);
    packet.count = 1;
    packet.ranges[0] = {arena_.address + page * kPageBytes, count * kPageBytes};
    send(socket, packet);
    return socket;
  }
  static void expect_done(int socket) {
    DaemonPacket packet{};
    expect(socket, DaemonPacketKind::done, packet);
    ::close(socket);
  }

  /// Pages stay, and the daemon waits for them, from here until let_pages_go.
  static void hold_pages() { drops_ = Drops::held; }
  /// Until the daemon waits for one.
  static void await_held_page() { drops_.wait(Drops::held); }
  static void let_pages_go() {
    drops_ = Drops::free;
    drops_.notify_all();
  }

  /// `before_fork` runs when nothing leaves any more.
  template <class Do>
  [[nodiscard]] pid_t fork(Do&& before_fork) {
    DaemonPacket packet{};
    const int socket = connect_to_daemon(path_, packet);
    send(socket, packet_of(DaemonPacketKind::fork_begins, token_));
    expect(socket, DaemonPacketKind::quiet, packet);
    before_fork();
    ::madvise(base(), arena_.bytes, MADV_DOFORK);
    const pid_t child = ::fork();
    ::madvise(base(), arena_.bytes, MADV_DONTFORK);
    if (child == 0) {
      join(socket);
    } else {
      send(socket, packet_of(DaemonPacketKind::forked));
      ::close(socket);
    }
    return child;
  }
  [[nodiscard]] pid_t fork() {
    return fork([] {});
  }

 private:
  void join(int connection) {
    const int faults = open_userfaultfd();
    DaemonPacket packet = packet_of(DaemonPacketKind::join);
    packet.count = ranges_.size();
    std::copy(ranges_.begin(), ranges_.end(), packet.ranges.begin());
    send(connection, packet, faults);
    expect(connection, DaemonPacketKind::joined, packet);
    token_ = packet.value;
    std::array<int, 2> ready{};
    if (::pipe2(ready.data(), O_CLOEXEC) != 0) give_up("pipe");
    std::thread([connection, to = ready[1]] { drop_until_killed(connection, to); }).detach();
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) give_up("read");
    for (const int fd : {connection, faults, ready[0], ready[1]}) ::close(fd);
  }

  // With a table of descriptors of its own: a child of fork has neither of the two.
  [[noreturn]] static void drop_until_killed(int connection, int ready) {
    if (::unshare(CLONE_FILES) != 0) give_up("unshare");
    if (::write(ready, "", 1) != 1) give_up("write");
    static thread_local DaemonPacket packet;
    while (receive(connection, packet)) {
      if (packet.kind != DaemonPacketKind::drop) continue;
      if (auto held = Drops::held; drops_.compare_exchange_strong(held, Drops::awaited)) {
        drops_.notify_all();
        drops_.wait(Drops::awaited);
      }
      for (std::uint64_t i = 0; i < packet.count; ++i) {
        ::madvise(pointer_to(packet.ranges[i].address), packet.ranges[i].bytes, MADV_DONTNEED);
      }
      send(connection, packet_of(DaemonPacketKind::dropped));
    }
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }

  enum class Drops : std::uint8_t { free, held, awaited };
  static inline std::atomic<Drops> drops_{Drops::free};

  const char* path_;
  AddressRange arena_{};
  std::vector<AddressRange> ranges_;
  std::uint64_t token_ = 0;
};

}  // namespace farside::far::client
