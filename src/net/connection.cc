#include "net/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/assert.h"

namespace farside::net {

Connection::Connection(EventLoop& loop, Fd socket, std::function<void()> on_ready)
    : loop_(loop), socket_(std::move(socket)), handler_([this, ready = std::move(on_ready)](std::uint32_t events) {
        if ((events & EPOLLOUT) != 0) {
          flush();
          if (on_taken_) on_taken_();
        }
        if ((events & ~EPOLLOUT) != 0) ready();  // last: `this` may be gone
      }) {
  loop_.watch(socket_.get(), events(), handler_);
}

void Connection::ignore(bool ignored) {
  if (ignored) {
    loop_.forget(socket_.get());
  } else {
    loop_.watch(socket_.get(), events(), handler_);
  }
}

bool Connection::receive(std::size_t at_most) {
  assert_that(at_most != 0, "what is received has room for a byte: none means the end");
  std::array<char, kChunkBytes> chunk;
  const ssize_t count = ::recv(socket_.get(), chunk.data(), std::min(chunk.size(), at_most), 0);
  if (count > 0) received_.append(chunk.data(), static_cast<std::size_t>(count));
  broke_ = count < 0 && errno != EAGAIN && errno != EINTR;
  return count != 0 && !broke_;
}

void Connection::send(std::string_view bytes) {
  assert_that(blocked_ == !unsent_.empty(), "the loop says when more fits if and only if bytes wait");
  if (!blocked_ && !bytes.empty()) bytes.remove_prefix(send_now(bytes));
  if (bytes.empty()) return;
  unsent_.append(bytes);
  watch_for_room();
}

std::size_t Connection::send_now(std::string_view bytes) {
  const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  const auto taken = static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  taken_ += taken;
  return taken;
}

void Connection::flush() {
  assert_that(sent_ <= unsent_.size(), "what is sent is a part of what was to be sent");
  sent_ += send_now(std::string_view(unsent_).substr(sent_));
  if (sent_ >= unsent_.size() / 2) {  // seldom enough that a long rest is not moved for each piece sent
    unsent_.erase(0, sent_);
    unsent_.shrink_to_fit();
    sent_ = 0;
  }
  watch_for_room();
}

void Connection::watch_for_room() {
  const bool was_blocked = std::exchange(blocked_, !unsent_.empty());
  if (blocked_ != was_blocked) watch_again();
}

void Connection::pause(bool paused) {
  paused_ = paused;
  watch_again();
}

void Connection::watch_again() { loop_.change(socket_.get(), events()); }

std::uint32_t Connection::events() const { return (paused_ ? 0U : EPOLLIN) | (blocked_ ? EPOLLOUT : 0U); }

}  // namespace farside::net
