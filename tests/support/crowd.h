// crowd.h — very many connections to one socket, held open by a process of their own.
#pragma once

#include <cstddef>
#include <string>

#include "tests/support/command.h"

namespace farside::test {

class Crowd {
 public:
  /// Connects `wanted` times to `address`, the path of a Unix socket or host:port, every other time with a few
  /// bytes that mean nothing. Where the descriptor limit allows fewer, says so on standard output.
  explicit Crowd(const std::string& address, std::size_t wanted = 10'000);

  /// Waits until all have connected, and says how many they are. They stay until this goes.
  [[nodiscard]] std::size_t wait_until_complete();

 private:
  const std::size_t wanted_;
  Command process_;
};

}  // namespace farside::test
