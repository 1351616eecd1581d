#include "kv_baselines/transports/socket_stream.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "farside/base/error.h"

namespace farside::kv_baselines {

namespace {

// A call that waits looks at its deadline as often.
constexpr Duration kSlice = std::chrono::milliseconds(50);

bool goes_later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

SocketStream::SocketStream(const Fabric& fabric, Fd socket) : fabric_(fabric), socket_(std::move(socket)) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  const timeval slice{.tv_sec = 0, .tv_usec = std::chrono::duration_cast<std::chrono::microseconds>(kSlice).count()};
  if (flags < 0 || ::fcntl(socket_.get(), F_SETFL, flags & ~O_NONBLOCK) != 0 ||
      ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice) != 0) {
    throw errno_error("set up", "a socket to a key-value server");
  }
}

// One system call where something comes soon, as of a plain program that blocks.
Stream::Moved SocketStream::read(std::span<std::byte> into, Deadline deadline) {
  for (;;) {
    const bool waits = deadline.at > kAtOnce.at && fabric_.now() < deadline.at;
    const ssize_t count = ::recv(socket_.get(), into.data(), into.size(), waits ? 0 : MSG_DONTWAIT);
    if (count > 0) return static_cast<std::size_t>(count);
    if (count == 0 || !goes_later()) return std::nullopt;
    if (!waits) return 0;
  }
}

Stream::Moved SocketStream::write(std::span<const std::byte> bytes) {
  const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count >= 0) return static_cast<std::size_t>(count);
  return goes_later() ? Moved(0) : std::nullopt;
}

void SocketStream::await_room(Deadline deadline) {
  const Duration left = std::clamp(deadline.at - fabric_.now(), Duration::zero(), kSlice);
  pollfd entry{socket_.get(), POLLIN | POLLOUT, 0};
  ::poll(&entry, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

}  // namespace farside::kv_baselines
