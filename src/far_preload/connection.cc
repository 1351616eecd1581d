#include "connection.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>

#include <linux/futex.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/socket_packet.h"
#include "cache_preload/system_call.h"
#include "far/time_limits.h"

namespace farside::far_preload {

namespace {

using cache_preload::system_call;

constinit sockaddr_un address{};
constinit std::uint64_t token = 0;

// Requirements of any packet that came, apart from its kind.
bool is_whole(const DaemonPacket& packet, std::size_t bytes) {
  if (bytes < DaemonPacket::bytes(0) || packet.version != far::kDaemonVersion) return false;
  const std::size_t rest = bytes - DaemonPacket::bytes(0);
  return packet.kind == DaemonPacketKind::refused
             ? packet.count == rest
             : packet.count <= DaemonPacket::kRanges && packet.count * sizeof(AddressRange) == rest;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) system_call(SYS_close, fd_);
}

void name_daemon(const char* path) {
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
}

void set_token(std::uint64_t value) { token = value; }

DaemonPacket packet_of(DaemonPacketKind kind) {
  DaemonPacket packet;
  packet.kind = kind;
  packet.version = far::kDaemonVersion;
  packet.value = token;
  packet.extra = 0;
  packet.count = 0;
  return packet;
}

Descriptor connect_to_daemon(DaemonPacket& welcome) {
  Descriptor fd(system_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const timeval timeout{far::time_limits::kDaemon.count(), 0};
  system_call(SYS_setsockopt, fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  system_call(SYS_setsockopt, fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  const long connected = system_call(SYS_connect, fd.get(), &address, sizeof address);
  if (connected != 0) return Descriptor(connected);
  if (!receive(fd.get(), welcome) || welcome.kind != DaemonPacketKind::welcome) return Descriptor(-EPROTO);
  return fd;
}

void wait_without_limit(int connection) {
  const timeval none{};
  system_call(SYS_setsockopt, connection, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
}

bool send(int connection, const DaemonPacket& packet, int file) {
  const std::size_t bytes = DaemonPacket::bytes(packet.count);
  const std::span data = std::as_bytes(std::span(&packet, 1)).first(bytes);
  SocketPacket<1> outgoing(data, std::span(&file, file >= 0 ? 1 : 0));
  long sent = 0;
  do sent = system_call(SYS_sendmsg, connection, outgoing.message(), MSG_NOSIGNAL);
  while (sent == -EINTR);
  return sent == static_cast<long>(bytes);
}

bool receive(int connection, DaemonPacket& packet) {
  long got = 0;
  do got = system_call(SYS_recvfrom, connection, &packet, sizeof packet, 0, nullptr, nullptr);
  while (got == -EINTR);
  return got > 0 && is_whole(packet, static_cast<std::size_t>(got));
}

namespace {

// A request is executed, sooner or later, so the answer is waited for: a discard must not take effect behind the
// program's back. If the daemon is gone, so is the connection.
Answer answer_to(DaemonPacket& packet, const Descriptor& connection) {
  if (!connection) return Answer::gone;
  wait_without_limit(connection.get());
  if (!send(connection.get(), packet) || !receive(connection.get(), packet)) return Answer::gone;
  if (packet.kind == DaemonPacketKind::done) return Answer::done;
  return packet.kind == DaemonPacketKind::refused ? Answer::refused : Answer::gone;
}

// A request of a program that has no descriptor free: of a thread with a copy of its descriptors, which it closes.
// There is one at a time, since all requests are made under the arena's lock.
struct Beside {
  DaemonPacket packet;
  Answer answer;
  std::atomic<int> lives;  ///< cleared by the kernel when the thread has ended, and its stack is free
};
constinit Beside beside{};
alignas(64) constinit std::byte stack_beside[std::size_t{16} << 10U];

int ask_with_own_descriptors(void* /*argument*/) {
  system_call(SYS_close_range, 0, UINT_MAX, 0);
  DaemonPacket welcome;
  const Descriptor connection = connect_to_daemon(welcome);
  beside.answer = answer_to(beside.packet, connection);
  return 0;
}

Answer ask_beside(const DaemonPacket& packet) {
  beside.packet = packet;
  beside.answer = Answer::gone;
  beside.lives.store(1);
  constexpr int kFlags = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
  if (clone(ask_with_own_descriptors, stack_beside + sizeof stack_beside, kFlags, nullptr, nullptr, nullptr,
            &beside.lives) < 0) {
    return Answer::gone;
  }
  while (beside.lives.load() != 0) system_call(SYS_futex, &beside.lives, FUTEX_WAIT, 1, nullptr);
  return beside.answer;
}

}  // namespace

Answer ask(DaemonPacketKind kind, std::uint64_t extra, std::span<const AddressRange> ranges) {
  DaemonPacket packet = packet_of(kind);
  packet.extra = extra;
  packet.count = ranges.size();
  std::ranges::copy(ranges, packet.ranges.begin());
  DaemonPacket welcome;
  const Descriptor connection = connect_to_daemon(welcome);
  return connection.get() == -EMFILE ? ask_beside(packet) : answer_to(packet, connection);
}

}  // namespace farside::far_preload
