#include "team/connection.h"

#include <array>
#include <cerrno>
#include <utility>

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
  unsent_.append(bytes);
  if (!blocked_ && !bytes.empty()) flush();
}

void Connection::flush() {
  const ssize_t count = ::send(socket_.get(), unsent_.data() + sent_, unsent_bytes(), MSG_NOSIGNAL);
  if (count > 0) sent_ += static_cast<std::size_t>(count);
  if (sent_ >= unsent_.size() / 2) {  // seldom enough that a long rest is not moved for each piece sent
    unsent_.erase(0, sent_);
    sent_ = 0;
  }
  const bool was_blocked = std::exchange(blocked_, !unsent_.empty());
  if (blocked_ != was_blocked) loop_.change(socket_.get(), blocked_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

}  // namespace farside
