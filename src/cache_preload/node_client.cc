#include "node_client.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <type_traits>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "farside/cache/time_limits.h"

#include "base/socket_packet.h"
#include "clock.h"
#include "host_memory.h"
#include "own_descriptors.h"
#include "process.h"
#include "silence.h"
#include "system_call.h"

namespace farside::cache_preload::node {

namespace {

namespace node_socket = cache::node_socket;

constexpr std::uint64_t in_ns(Duration duration) { return static_cast<std::uint64_t>(duration.count()); }

constexpr std::uint64_t kMinPause_ns = in_ns(cache::time_limits::kMinPause);
constexpr std::uint64_t kMaxPause_ns = in_ns(cache::time_limits::kMaxPause);
constexpr std::size_t kIdleConnections = 8;

// A socket of ours, or nothing. Its inode tells it from what a program that closes all descriptors opens after.
struct Connection {
  int fd = -1;
  std::uint32_t inode = 0;
};

constinit sockaddr_un address{};
constinit std::atomic<const HostMemory*> mapped{nullptr};
constinit std::atomic<std::uint64_t> look_at_ns{0};  // when to look for the node again; 0 while it is not lost
constinit std::atomic<std::uint64_t> pause_ns{0};
constinit std::atomic<bool> warned{false};

// Connections that are not in use, each in one word: inode, fd + 1.
constinit std::atomic<std::uint64_t> idle[kIdleConnections];

std::uint32_t inode_of(int fd) {
  struct stat64 found {};
  return system_call(SYS_fstat, fd, &found) == 0 && S_ISSOCK(found.st_mode) ? static_cast<std::uint32_t>(found.st_ino)
                                                                            : 0;
}

// How long the node is waited for.
class TimeLimit {
 public:
  explicit TimeLimit(Duration limit) : end_ns_(coarse_now_ns() + in_ns(limit)) {}
  /// Whether a wait that was broken off after time_limits::kSilenceLook goes on: not when another program has found the
  /// node silent meanwhile.
  [[nodiscard]] bool goes_on() const { return coarse_now_ns() < end_ns_ && !silence::is_noted(); }
  [[nodiscard]] bool is_over() const { return coarse_now_ns() >= end_ns_; }

 private:
  std::uint64_t end_ns_;
};

// The connection, or -errno as its descriptor.
Connection connect_to_node(const TimeLimit& limit) {
  const long lowest = system_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (lowest < 0) return {static_cast<int>(lowest)};
  const int fd = moved_high(static_cast<int>(lowest));
  if (fd < 0) return {fd};
  constexpr timeval kLook{std::chrono::duration_cast<std::chrono::seconds>(cache::time_limits::kSilenceLook).count(),
                          0};
  system_call(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &kLook, sizeof kLook);
  system_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &kLook, sizeof kLook);
  long connected = 0;
  do {
    connected = system_call(SYS_connect, fd, &address, sizeof address);
  } while (connected == -EAGAIN && limit.goes_on());
  if (connected == 0) return {fd, inode_of(fd)};
  close_descriptor(fd);
  return {connected == -EAGAIN ? -ETIMEDOUT : static_cast<int>(connected)};
}

Connection take_idle(std::atomic<std::uint64_t>& place) {
  const std::uint64_t word = place.exchange(0);
  const Connection taken{static_cast<int>(word & 0xffffffffU) - 1, static_cast<std::uint32_t>(word >> 32U)};
  return taken.fd >= 0 && inode_of(taken.fd) == taken.inode ? taken : Connection{};
}

Connection take(const TimeLimit& limit) {
  for (auto& place : idle) {
    if (const Connection taken = take_idle(place); taken.fd >= 0) return taken;
  }
  return connect_to_node(limit);
}

void give_back(Connection connection) {
  const std::uint64_t word = std::uint64_t{connection.inode} << 32U | static_cast<std::uint32_t>(connection.fd + 1);
  for (auto& place : idle) {
    std::uint64_t nothing = 0;
    if (place.compare_exchange_strong(nothing, word)) return;
  }
  close_descriptor(connection.fd);
}

// 0 or -errno, as `receive`.
int send(Connection connection, const node_socket::Request& request, int file, const TimeLimit& limit) {
  SocketPacket<1> packet(std::as_bytes(std::span(&request, 1)), std::span(&file, file >= 0 ? 1 : 0));
  long sent = 0;
  do {
    sent = system_call(SYS_sendmsg, connection.fd, packet.message(), MSG_NOSIGNAL);
  } while (sent == -EINTR || (sent == -EAGAIN && limit.goes_on()));
  if (sent == sizeof request) return 0;
  return sent == -EAGAIN ? -ETIMEDOUT : -ECONNRESET;
}

// Takes one packet of exactly this size, and the descriptors that come with it.
template <class Reply>
int receive(Connection connection, Reply& reply, int (&descriptors)[2], const TimeLimit& limit) {
  SocketPacket<2> packet(std::as_writable_bytes(std::span(&reply, 1)));
  long bytes = 0;
  do {
    bytes = system_call(SYS_recvmsg, connection.fd, packet.message(), MSG_CMSG_CLOEXEC);
  } while ((bytes == -EINTR && !limit.is_over()) || (bytes == -EAGAIN && limit.goes_on()));
  if (bytes < 0) return bytes == -EAGAIN || bytes == -EINTR ? -ETIMEDOUT : -ECONNRESET;
  static_assert(decltype(packet)::kRoom == std::extent_v<std::remove_reference_t<decltype(descriptors)>>);
  packet.take_descriptors([next = descriptors](int descriptor) mutable { *next++ = descriptor; });
  if (bytes != sizeof reply || !packet.has_all_data()) return -ECONNRESET;
  return packet.has_all_descriptors() ? 0 : -EMFILE;
}

// Unless it is this program that cannot have a connection.
silence::Noted note_loss(int error) {
  if (error == -ETIMEDOUT) return silence::note_silent();
  const bool is_gone = error == -ENOENT || error == -ECONNREFUSED || error == -ECONNRESET;
  return is_gone ? silence::note_gone() : silence::Noted::not_possible;
}

struct Exchanged {
  int error = 0;  // 0, or -errno: -ETIMEDOUT when the node is silent
  silence::Noted noted = silence::Noted::again;
};

template <class Reply>
Exchanged exchange(const node_socket::Request& request, int file, Reply& reply, int (&descriptors)[2],
                   Duration longest) {
  const TimeLimit limit(longest);
  const Connection connection = take(limit);
  if (connection.fd < 0) return {connection.fd, note_loss(connection.fd)};
  int error = send(connection, request, file, limit);
  if (error == 0) error = receive(connection, reply, descriptors, limit);
  if (error == 0) {
    give_back(connection);
    return {};
  }
  const silence::Noted noted =
      note_loss(error);  // first: the node takes it back when it sees the end of the connection
  close_descriptor(connection.fd);
  return {error, noted};
}

node_socket::Request request_for(node_socket::RequestKind kind) {
  return {.magic = node_socket::kMagic, .version = node_socket::kVersion, .kind = kind, .zero = 0, .key = {}};
}

}  // namespace

void name(const char* socket_path) {
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, socket_path, sizeof address.sun_path - 1);
  silence::name(address.sun_path);
}

namespace {

// When to look for the node again: soon when others tell of its silence, which costs nothing to ask for.
void lose(int error) {
  const std::uint64_t twice = std::max(2 * pause_ns.load(std::memory_order_relaxed), kMinPause_ns);
  std::uint64_t pause = std::min(twice, kMaxPause_ns);
  if (error == -ETIMEDOUT) pause = silence::is_noted() ? in_ns(cache::time_limits::kSilencePause) : kMaxPause_ns;
  pause_ns.store(pause, std::memory_order_relaxed);
  look_at_ns.store(coarse_now_ns() + pause, std::memory_order_relaxed);
  forget_connections();
}

// Whether the node is there, as far as is known. Of the calls that come when it is time, one is told to look.
enum class Standing { there, lost, look };
Standing standing() {
  std::uint64_t at = look_at_ns.load(std::memory_order_relaxed);
  if (at == 0) return mapped.load(std::memory_order_relaxed) != nullptr ? Standing::there : Standing::look;
  const std::uint64_t now_ns = coarse_now_ns();
  if (now_ns < at) return Standing::lost;
  return look_at_ns.compare_exchange_strong(at, now_ns + kMaxPause_ns) ? Standing::look : Standing::lost;
}

// Once for all programs of the host: what they write to standard error may be read by others.
void warn_of(const Exchanged& failed) {
  if (failed.noted == silence::Noted::again || warned.exchange(true)) return;
  process::warn("cannot reach the node at", address.sun_path, -failed.error);
}

// Maps the memory of the node, which may be another one than before.
const HostMemory* find() {
  const HostMemory* known = look_at_ns.load(std::memory_order_relaxed) == 0 ? nullptr : mapped.load();
  if (silence::is_noted()) {
    lose(-ETIMEDOUT);
    return nullptr;
  }
  const bool is_retry = silence::take_retry();
  node_socket::MapReply reply{};
  int descriptors[2] = {-1, -1};
  const Exchanged done = exchange(request_for(node_socket::RequestKind::map), -1, reply, descriptors,
                                  is_retry ? cache::time_limits::kRetry : cache::time_limits::kNode);
  const HostMemory* const fresh = done.error == 0 ? HostMemory::map(reply, descriptors[0], descriptors[1]) : nullptr;
  for (const int descriptor : descriptors) close_descriptor(descriptor);
  if (fresh == nullptr) {
    lose(done.error);
    if (known == nullptr) warn_of(done.error != 0 ? done : Exchanged{-EPROTO, silence::Noted::not_possible});
    return nullptr;
  }
  if (is_retry) silence::take_back();
  if (!mapped.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) {
    fresh->blank();  // another thread was first
    return known;
  }
  if (known != nullptr) known->blank();
  look_at_ns.store(0, std::memory_order_relaxed);
  pause_ns.store(0, std::memory_order_relaxed);
  return fresh;
}

}  // namespace

const HostMemory* memory() {
  if (const HostMemory* known = mapped.load(std::memory_order_acquire)) return known;
  return process::is_ours() && standing() == Standing::look ? find() : nullptr;
}

bool ask(node_socket::RequestKind kind, const cache::BlockKey& key, int file, node_socket::Reply& reply) {
  if (!process::is_ours()) return false;
  const Standing node = standing();
  if (node == Standing::lost || (node == Standing::look && find() == nullptr)) return false;

  node_socket::Request request = request_for(kind);
  request.key = key;
  int descriptors[2] = {-1, -1};
  const Exchanged done = exchange(request, file, reply, descriptors, cache::time_limits::kNode);
  for (const int descriptor : descriptors) close_descriptor(descriptor);
  if (done.error != 0) lose(done.error);
  return done.error == 0;
}

void forget_connections() {
  for (auto& place : idle) close_descriptor(take_idle(place).fd);
}

}  // namespace farside::cache_preload::node
