// socket.h — stream sockets on one host ("/run/farside/coordinator") or between hosts ("node1:7777", "[::1]:0").
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "farside/base/error.h"
#include "farside/base/fd.h"

namespace farside::net {

/// The other side has ended the connection.
class ClosedError : public Error {
 public:
  using Error::Error;
};

/// The clock of set-up, before there is a fabric to ask.
using SetupClock = std::chrono::steady_clock;

/// The end of the first of `left` attempts that are to be over by `deadline`: one that is not answered leaves the
/// others their part. At least 200 ms from now, in which a process that is there answers.
[[nodiscard]] SetupClock::time_point share_of(SetupClock::time_point deadline, std::size_t left);

/// An address with a slash names a Unix socket of this host.
[[nodiscard]] bool is_host_local(std::string_view address);

/// Whether only this host's processes can reach it: a Unix socket, or an address of the loopback interface. Throws
/// Error when the host has no address.
[[nodiscard]] bool is_loopback(const std::string& address);

/// Whether it names every address of this host ("0.0.0.0:7000"), and so none by which others reach it. Throws Error
/// when the host has no address.
[[nodiscard]] bool is_unspecified(const std::string& address);

/// A non-blocking listening socket. Port 0 lets the kernel choose. To one with a name in the file system only this user
/// may connect.
[[nodiscard]] Fd listen_on(const std::string& address);
/// `address` with the port that the kernel chose.
[[nodiscard]] std::string bound_address(const Fd& listener, const std::string& address);

/// The address of this host, without a port, as the host of `address` knows it.
[[nodiscard]] std::string own_host_towards(const std::string& address);
/// The same, for HostFabricOptions::network. Empty where `address` tells nothing of it: a Unix socket, or what a host
/// listens on that listens on every interface.
[[nodiscard]] std::string network_towards(const std::string& address);

/// Between hosts: has the connection break within seconds when the other host is gone.
void keep_alive(const Fd& socket);

/// Returns a connected, non-blocking socket. Throws Error when no process answers by `deadline`; on this host, when no
/// process listens.
[[nodiscard]] Fd connect_to(const std::string& address, SetupClock::time_point deadline);

// On a non-blocking socket. Throw Error when the deadline passes, ClosedError when the connection has ended.

/// Returns exactly `bytes` bytes.
[[nodiscard]] std::string read_exactly(const Fd& socket, std::size_t bytes, SetupClock::time_point deadline);
void write_all(const Fd& socket, std::string_view bytes, SetupClock::time_point deadline);

}  // namespace farside::net
