#include "team/connection.h"

#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace farside {

Connection::Connection(EventLoop& loop, Fd socket, std::function<void()> on_ready)
    : loop_(loop), socket_(std::move(socket)) {
  loop_.watch(socket_.get(), EPOLLIN, [this, ready = std::move(on_ready)](std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) flush();
    if ((events & ~EPOLLOUT) != 0) ready();  // last: `this` may be gone
  });
}

bool Connection::receive() {
  std::array<char, 16 << 10> chunk;
  const ssize_t count = ::recv(socket_.get(), chunk.data(), chunk.size(), 0);
  if (count > 0) received_.append(chunk.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

void Connection::send(std::string_view bytes) {
  const bool was_idle = unsent_.empty();
  unsent_.append(bytes);
  if (was_idle) flush();
}

void Connection::flush() {
  const ssize_t count = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
  if (count > 0) unsent_.erase(0, static_cast<std::size_t>(count));
  loop_.change(socket_.get(), unsent_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

}  // namespace farside
