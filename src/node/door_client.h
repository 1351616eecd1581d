// door_client.h — goes to a node's host door, as `farside status` and `farside up` do.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "farside/base/fd.h"
#include "farside/cache/host_door.h"

namespace farside {

/// Returns an empty Fd, with errno set, when the node does not accept the connection. Sending and receiving on the
/// socket waits for `timeout` at most.
[[nodiscard]] Fd connect_to_door(const std::string& path, std::chrono::milliseconds timeout);

struct DoorStatus {
  enum class State : std::uint8_t {
    answered,
    silent,  ///< a process listens, but nothing came in time: stopped, or waiting for a file system
    gone,    ///< no process listens
  };

  State state = State::gone;
  door::StatusReply reply{};  ///< when answered
};

/// Waits at most `timeout` each to be let in and to be answered.
[[nodiscard]] DoorStatus ask_status(const std::string& path, std::chrono::milliseconds timeout);

}  // namespace farside
