#include "door_client.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host_memory.h"
#include "own_descriptors.h"
#include "process.h"
#include "system_call.h"

namespace farside::preload::node {

namespace {

constexpr std::uint64_t kPatience_s = 10;  // longer than a slow disk, shorter than a user's

// Between looks for the successor of a node that died. One that was silent costs each look its time.
constexpr std::uint64_t kShortestPause_ns = 200'000'000;
constexpr std::uint64_t kLongestPause_ns = 60'000'000'000;
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

// Connections that nobody is using, each in one word: inode, fd + 1.
constinit std::atomic<std::uint64_t> idle[kIdleConnections];

std::uint32_t inode_of(int fd) {
  struct stat64 found {};
  return system_call(SYS_fstat, fd, &found) == 0 && S_ISSOCK(found.st_mode) ? static_cast<std::uint32_t>(found.st_ino)
                                                                            : 0;
}

// The connection, or -errno as its descriptor.
Connection connect_to_node() {
  const long lowest = system_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (lowest < 0) return {static_cast<int>(lowest)};
  const int fd = moved_high(static_cast<int>(lowest));
  if (fd < 0) return {fd};
  const timeval patience{static_cast<time_t>(kPatience_s), 0};
  system_call(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  system_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const long connected = system_call(SYS_connect, fd, &address, sizeof address);
  if (connected == 0) return {fd, inode_of(fd)};
  close_descriptor(fd);
  return {static_cast<int>(connected)};
}

Connection take_idle(std::atomic<std::uint64_t>& place) {
  const std::uint64_t word = place.exchange(0);
  const Connection taken{static_cast<int>(word & 0xffffffffU) - 1, static_cast<std::uint32_t>(word >> 32U)};
  return taken.fd >= 0 && inode_of(taken.fd) == taken.inode ? taken : Connection{};
}

Connection take() {
  for (auto& place : idle) {
    if (const Connection taken = take_idle(place); taken.fd >= 0) return taken;
  }
  return connect_to_node();
}

void give_back(Connection connection) {
  const std::uint64_t word = std::uint64_t{connection.inode} << 32U | static_cast<std::uint32_t>(connection.fd + 1);
  for (auto& place : idle) {
    std::uint64_t nothing = 0;
    if (place.compare_exchange_strong(nothing, word)) return;
  }
  close_descriptor(connection.fd);
}

template <std::size_t kDescriptors>
union DescriptorMessage {
  cmsghdr header;
  char bytes[CMSG_SPACE(kDescriptors * sizeof(int))];
};

bool send(Connection connection, const door::Request& request, int file) {
  DescriptorMessage<1> descriptor{};
  iovec part{const_cast<door::Request*>(&request), sizeof request};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = &descriptor;
    message.msg_controllen = sizeof descriptor;
    descriptor.header = {CMSG_LEN(sizeof file), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(&descriptor.header), &file, sizeof file);
  }
  long sent = 0;
  do {
    sent = system_call(SYS_sendmsg, connection.fd, &message, MSG_NOSIGNAL);
  } while (sent == -EINTR);
  return sent == sizeof request;
}

// Takes one packet of exactly this size, and the descriptors that come with it.
template <class Reply>
bool receive(Connection connection, Reply& reply, int (&descriptors)[2]) {
  DescriptorMessage<2> received{};
  iovec part{&reply, sizeof reply};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = &received;
  message.msg_controllen = sizeof received;
  const std::uint64_t deadline_ns = coarse_now_ns() + kPatience_s * 1'000'000'000U;
  long bytes = 0;
  do {
    bytes = system_call(SYS_recvmsg, connection.fd, &message, MSG_CMSG_CLOEXEC);
  } while (bytes == -EINTR && coarse_now_ns() < deadline_ns);
  if (bytes >= 0 && message.msg_controllen >= CMSG_LEN(0) && received.header.cmsg_type == SCM_RIGHTS) {
    std::memcpy(descriptors, CMSG_DATA(&received.header),
                std::min(received.header.cmsg_len - CMSG_LEN(0), sizeof descriptors));
  }
  return bytes == sizeof reply && (message.msg_flags & MSG_TRUNC) == 0;
}

template <class Reply>
bool exchange(const door::Request& request, int file, Reply& reply, int (&descriptors)[2], int& error) {
  const Connection connection = take();
  if (connection.fd < 0) {
    error = -connection.fd;
    return false;
  }
  if (send(connection, request, file) && receive(connection, reply, descriptors)) {
    give_back(connection);
    return true;
  }
  error = ETIMEDOUT;
  close_descriptor(connection.fd);
  return false;
}

door::Request request_for(door::RequestKind kind) {
  return {.magic = door::kMagic, .version = door::kVersion, .kind = kind, .zero = 0, .key = {}};
}

}  // namespace

void name(const char* socket_path) {
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, socket_path, sizeof address.sun_path - 1);
}

namespace {

// The node did not answer what was asked at `since_ns`.
void lose(std::uint64_t since_ns) {
  const std::uint64_t now_ns = coarse_now_ns();
  const bool was_silent = now_ns - since_ns > kPatience_s * 1'000'000'000U / 2;
  const std::uint64_t twice = std::max(2 * pause_ns.load(std::memory_order_relaxed), kShortestPause_ns);
  const std::uint64_t pause = was_silent ? kLongestPause_ns : std::min(twice, kLongestPause_ns);
  pause_ns.store(pause, std::memory_order_relaxed);
  look_at_ns.store(now_ns + pause, std::memory_order_relaxed);
  forget_connections();
}

// Whether the node is there, as far as is known. Of those who come when it is time, one is told to look.
enum class Standing { there, lost, look };
Standing standing() {
  std::uint64_t at = look_at_ns.load(std::memory_order_relaxed);
  if (at == 0) return mapped.load(std::memory_order_relaxed) != nullptr ? Standing::there : Standing::look;
  const std::uint64_t now_ns = coarse_now_ns();
  if (now_ns < at) return Standing::lost;
  return look_at_ns.compare_exchange_strong(at, now_ns + kLongestPause_ns) ? Standing::look : Standing::lost;
}

// Maps the memory of the node, which may be another one than before.
const HostMemory* find() {
  const HostMemory* known = look_at_ns.load(std::memory_order_relaxed) == 0 ? nullptr : mapped.load();
  const std::uint64_t start_ns = coarse_now_ns();
  door::MapReply reply{};
  int descriptors[2] = {-1, -1};
  int error = EPROTO;
  const HostMemory* fresh = nullptr;
  if (exchange(request_for(door::RequestKind::map), -1, reply, descriptors, error)) {
    fresh = HostMemory::map(reply, descriptors[0], descriptors[1]);
  }
  for (const int descriptor : descriptors) close_descriptor(descriptor);
  if (fresh == nullptr) {
    lose(start_ns);
    if (known == nullptr && !warned.exchange(true)) process::warn("cannot reach the node at", address.sun_path, error);
    return nullptr;
  }
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

bool ask(door::RequestKind kind, const BlockKey& key, int file, door::Reply& reply) {
  if (!process::is_ours()) return false;
  const Standing node = standing();
  if (node == Standing::lost || (node == Standing::look && find() == nullptr)) return false;

  const std::uint64_t start_ns = coarse_now_ns();
  door::Request request = request_for(kind);
  request.key = key;
  int descriptors[2] = {-1, -1};
  int error = 0;
  const bool answered = exchange(request, file, reply, descriptors, error);
  for (const int descriptor : descriptors) close_descriptor(descriptor);
  if (!answered) lose(start_ns);
  return answered;
}

void forget_connections() {
  for (auto& place : idle) close_descriptor(take_idle(place).fd);
}

}  // namespace farside::preload::node
