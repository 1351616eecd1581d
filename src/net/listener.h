// listener.h — a listening socket (socket.h) and, where it has one, its name in this host's file system.
#pragma once

#include <string>
#include <utility>

#include "farside/base/fd.h"

namespace farside::net {

class Listener {
 public:
  /// A Unix socket is open to this user alone, and takes the place of one that a killed process left there: the caller
  /// knows that no process listens at it. Throws Error.
  explicit Listener(std::string address);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  /// With the port that the kernel chose.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  Listener(std::string address, Fd socket) : address_(std::move(address)), socket_(std::move(socket)) {}

  std::string address_;
  Fd socket_;
};

}  // namespace farside::net
