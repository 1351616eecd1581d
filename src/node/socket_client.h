// socket_client.h — asks a node over its socket, as `farside status` and `farside up` do.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "farside/base/fd.h"
#include "farside/cache/node_socket.h"

namespace farside::node {

/// Returns an empty Fd, with errno set, when the node does not accept the connection. Sending and receiving on the
/// socket waits for `timeout` at most.
[[nodiscard]] Fd connect_to_node(const std::string& path, std::chrono::milliseconds timeout);

struct SocketStatus {
  enum class State : std::uint8_t {
    answered,
    silent,  ///< a process listens, but nothing came in time: stopped, or waiting for a file system
    gone,    ///< no process listens
  };

  State state = State::gone;
  cache::node_socket::StatusReply reply{};  ///< when answered
};

/// Waits at most `timeout` each to be let in and to be answered.
[[nodiscard]] SocketStatus ask_status(const std::string& path, std::chrono::milliseconds timeout);

}  // namespace farside::node
