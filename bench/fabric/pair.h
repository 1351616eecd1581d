// pair.h — an initiator and its target: this process and its child, who tell each other where they are.
#pragma once

#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <system_error>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/fd.h"

namespace farside::bench {

/// One end of a stream of messages between the two.
class Line {
 public:
  explicit Line(Fd socket) : socket_(std::move(socket)) {}

  void send(const std::string& message) const {
    if (::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL) < 0) fail("send to the other process");
  }
  /// Empty when the other side is gone.
  [[nodiscard]] std::string receive() const {
    std::string message(16 << 10, '\0');
    const ssize_t got = ::recv(socket_.get(), message.data(), message.size(), 0);
    if (got < 0) fail("hear from the other process");
    message.resize(static_cast<std::size_t>(got));
    return message;
  }
  /// Sends mine and returns theirs.
  [[nodiscard]] std::string exchange(const std::string& mine) const {
    send(mine);
    std::string theirs = receive();
    if (theirs.empty()) throw std::runtime_error("the other process ended");
    return theirs;
  }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  [[noreturn]] static void fail(const char* tried) { throw std::system_error(errno, std::generic_category(), tried); }

  Fd socket_;
};

/// Runs `initiator` here and `target` in a child, which returns when the line is closed. Returns the exit code.
inline int run_pair(const std::function<void(const Line&)>& initiator, const std::function<void(const Line&)>& target) {
  const auto run = [](const std::function<void(const Line&)>& body, int socket) {
    try {
      body(Line(Fd(socket)));
      return 0;
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
      return 1;
    }
  };
  int ends[2];  // NOLINT(modernize-avoid-c-arrays): socketpair wants it
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return 1;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::close(ends[0]);
    ::_exit(run(target, ends[1]));
  }
  ::close(ends[1]);
  const int code = run(initiator, ends[0]);
  if (code != 0) ::kill(child, SIGKILL);  // it may be waiting for what does not come any more
  ::waitpid(child, nullptr, 0);
  return code;
}

}  // namespace farside::bench
