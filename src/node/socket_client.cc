#include "node/socket_client.h"

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

#include <sys/socket.h>
#include <sys/time.h>

#include "net/local_socket.h"
#include "node/socket_packet.h"

namespace farside::node {

namespace node_socket = cache::node_socket;

Fd connect_to_node(const std::string& path, std::chrono::milliseconds timeout) {
  const sockaddr_un address = net::local_address(path);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // bounds connect, too
  const int connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return connected == 0 ? std::move(socket) : Fd();
}

SocketStatus ask_status(const std::string& path, std::chrono::milliseconds timeout) {
  const Fd socket = connect_to_node(path, timeout);
  if (!socket) return {errno == EAGAIN ? SocketStatus::State::silent : SocketStatus::State::gone, {}};
  const node_socket::Request request{.magic = node_socket::kMagic,
                                     .version = node_socket::kVersion,
                                     .kind = node_socket::RequestKind::status,
                                     .zero = 0,
                                     .key = {}};
  SocketStatus status;
  if (!send_packet(socket, std::as_bytes(std::span(&request, 1)))) return status;
  const auto packet = receive_packet(socket, std::as_writable_bytes(std::span(&status.reply, 1)));
  if (!packet) {
    status.state = SocketStatus::State::silent;
  } else if (packet->bytes == sizeof status.reply && status.reply.answer == node_socket::Answer::here) {
    status.state = SocketStatus::State::answered;
  }
  return status;
}

}  // namespace farside::node
