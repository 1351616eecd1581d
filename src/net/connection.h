// connection.h — a non-blocking socket in an event loop: bytes read and not yet understood, bytes not yet sent.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "farside/base/fd.h"

#include "net/event_loop.h"

namespace farside::net {

/// For the loop's thread only.
class Connection {
 public:
  /// `on_ready` runs when there is something to receive, the end included; it may destroy the connection.
  Connection(EventLoop& loop, Fd socket, std::function<void()> on_ready);
  ~Connection() { loop_.forget(socket_.get()); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Adds what has come, up to `at_most` bytes and kChunkBytes, to received(). False once the other side closed or the
  /// connection broke.
  [[nodiscard]] bool receive(std::size_t at_most = kChunkBytes);
  /// After that: whether it broke. The other side did not close it, nor did the kernel when its process ended.
  [[nodiscard]] bool broke() const noexcept { return broke_; }
  [[nodiscard]] std::string& received() noexcept { return received_; }

  /// While paused `on_ready` runs only when the connection has broken.
  void pause(bool paused);

  /// While ignored it is not of the loop, and only the other way round of this may be called, or what reads received().
  void ignore(bool ignored);

  /// Sends now what fits and the rest when it fits. A broken connection shows in receive().
  void send(std::string_view bytes);
  /// `handler` runs each time the other side has taken something that had to wait. It does not destroy the connection.
  void on_taken(std::function<void()> handler) { on_taken_ = std::move(handler); }
  /// The bytes that the other side has not taken yet.
  [[nodiscard]] std::size_t unsent_bytes() const noexcept { return unsent_.size() - sent_; }
  /// The bytes that it has taken since the connection was made.
  [[nodiscard]] std::uint64_t taken_bytes() const noexcept { return taken_; }
  /// The memory of both directions.
  [[nodiscard]] std::size_t buffered_bytes() const noexcept { return received_.capacity() + unsent_.capacity(); }

  static constexpr std::size_t kChunkBytes = std::size_t{16} << 10U;

 private:
  void flush();
  /// How many of `bytes` the kernel has taken.
  [[nodiscard]] std::size_t send_now(std::string_view bytes);
  void watch_for_room();
  void watch_again();
  [[nodiscard]] std::uint32_t events() const;

  EventLoop& loop_;
  Fd socket_;
  EventLoop::Handler handler_;
  std::function<void()> on_taken_;
  std::string received_;
  std::string unsent_;  // the first `sent_` bytes of it are sent
  std::size_t sent_ = 0;
  std::uint64_t taken_ = 0;
  bool blocked_ = false;  // the loop says when more fits
  bool paused_ = false;
  bool broke_ = false;
};

}  // namespace farside::net
