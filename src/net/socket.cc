#include "net/socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "base/assert.h"
#include "net/local_socket.h"
#include "net/time_limits.h"

namespace farside::net {

namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// The C library takes a port modulo 65536, and none for any.
bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  return code == std::errc{} && end == text.data() + text.size();
}

AddressList resolve(const std::string& address, int flags) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) {
    throw UsageError({"read the address", address, "it has no port", "write host:port, or the path of a socket"});
  }
  const std::string port = address.substr(colon + 1);
  if (!is_port(port)) {
    throw UsageError({"read the address", address, "its port is no number from 0 to 65535", "write host:port"});
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) throw Error({"resolve", address, ::gai_strerror(code), "check the host's name and the port"});
  return {found, &::freeaddrinfo};
}

Fd open_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw errno_error("open", "a socket", "check ulimit -n");
  const int on = 1;
  // Only TCP knows the option; frames are small and awaited.
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

// False when the deadline passed.
bool wait_ready(const Fd& socket, short events, SetupClock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SetupClock::now()).count();
    pollfd entry{socket.get(), events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw errno_error("wait for", "a socket");
    if (left <= 0) return false;
  }
}

// Null, and errno set, when the other side refuses or does not answer.
Fd try_connect(int family, const sockaddr* address, socklen_t length, SetupClock::time_point deadline) {
  Fd socket = open_socket(family);
  int failed = ::connect(socket.get(), address, length);
  while (failed != 0 && errno == EAGAIN && SetupClock::now() < deadline) {  // a Unix socket whose queue is full
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    failed = ::connect(socket.get(), address, length);
  }
  if (failed == 0) return socket;
  if (errno != EINPROGRESS) return {};
  if (!wait_ready(socket, POLLOUT, deadline)) {
    errno = ETIMEDOUT;
    return {};
  }
  int code = 0;
  socklen_t size = sizeof code;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  errno = code;
  return code == 0 ? std::move(socket) : Fd();
}

[[noreturn]] void throw_silent_peer() {
  throw Error({"talk to", "the pool", "it did not answer in time", "look at its log"});
}

// As errno tells.
[[noreturn]] void throw_failed_talk() {
  const bool is_closed = errno == ECONNRESET || errno == EPIPE;
  const Error failed = errno_error("talk to", "the pool");
  if (is_closed) throw ClosedError(failed.failure());
  throw Error(failed);
}

bool names_no_host(const sockaddr& address) {
  if (address.sa_family == AF_INET) return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
}

// As numbers.
std::string own_address_towards(const std::string& address, const addrinfo& entry) {
  const Fd socket(::socket(entry.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));  // which sends nothing
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (!socket || ::connect(socket.get(), entry.ai_addr, entry.ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    throw errno_error("find a way to", address, "check the network");
  }
  std::array<char, NI_MAXHOST> name{};
  const int code = ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), length, name.data(), name.size(), nullptr, 0,
                                 NI_NUMERICHOST);
  if (code != 0) throw Error({"name the address of this host towards", address, ::gai_strerror(code), ""});
  return name.data();
}

}  // namespace

SetupClock::time_point share_of(SetupClock::time_point deadline, std::size_t left) {
  assert_that(left != 0, "an attempt that gets its share is one of those that are left");
  const auto now = SetupClock::now();
  return now + std::max((deadline - now) / static_cast<SetupClock::rep>(left),
                        SetupClock::duration(net::time_limits::kLeastShare));
}

bool is_host_local(std::string_view address) { return address.find('/') != std::string_view::npos; }

bool is_loopback(const std::string& address) {
  if (is_host_local(address)) return true;
  const AddressList found = resolve(address, AI_PASSIVE);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET) {
      constexpr std::uint32_t kLoopbackNet = 127;
      const auto& in = *reinterpret_cast<const sockaddr_in*>(each->ai_addr);
      if (ntohl(in.sin_addr.s_addr) >> 24U != kLoopbackNet) return false;
    } else {
      const auto& in = *reinterpret_cast<const sockaddr_in6*>(each->ai_addr);
      if (IN6_IS_ADDR_LOOPBACK(&in.sin6_addr) == 0) return false;
    }
  }
  return true;
}

Fd listen_on(const std::string& address) {
  if (is_host_local(address)) {
    Fd socket = open_socket(AF_UNIX);
    listen_for_this_user(socket, address);
    return socket;
  }
  const AddressList found = resolve(address, AI_PASSIVE);
  Fd socket = open_socket(found->ai_family);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    throw errno_error("listen on", address, "choose a free port, or 0 for any");
  }
  return socket;
}

std::string bound_address(const Fd& listener, const std::string& address) {
  if (is_host_local(address)) return address;
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    throw errno_error("read the address of", "a listening socket");
  }
  // The port lies at the same place in both families.
  const auto port = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  return address.substr(0, address.rfind(':') + 1) + std::to_string(port);
}

std::string own_host_towards(const std::string& address) {
  const std::string own = own_address_towards(address, *resolve(address, 0));
  return own.find(':') == std::string::npos ? own : "[" + own + "]";
}

bool is_unspecified(const std::string& address) {
  return !is_host_local(address) && names_no_host(*resolve(address, 0)->ai_addr);
}

std::string network_towards(const std::string& address) {
  if (is_host_local(address)) return {};
  const AddressList found = resolve(address, 0);
  return names_no_host(*found->ai_addr) ? std::string() : own_address_towards(address, *found);
}

void keep_alive(const Fd& socket) {
  const int on = 1;
  const int idle_s = net::time_limits::kKeepAliveIdle.count();
  const int interval_s = net::time_limits::kKeepAliveInterval.count();
  const int probes = net::time_limits::kKeepAliveProbes;
  // A Unix socket knows none of these, and needs none.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

Fd connect_to(const std::string& address, SetupClock::time_point deadline) {
  constexpr const char* kConnectRemedy = "is the pool running, and is this its address?";
  if (is_host_local(address)) {
    const sockaddr_un local = local_address(address);
    Fd socket = try_connect(AF_UNIX, reinterpret_cast<const sockaddr*>(&local), sizeof local, deadline);
    if (!socket) throw errno_error("connect to", address, kConnectRemedy);
    return socket;
  }
  const AddressList found = resolve(address, 0);
  for (;;) {
    for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
      Fd socket = try_connect(entry->ai_family, entry->ai_addr, entry->ai_addrlen, deadline);
      if (socket) return socket;
    }
    const Error failed = errno_error("connect to", address, kConnectRemedy);
    if (SetupClock::now() + net::time_limits::kBetweenConnects > deadline) throw failed;
    std::this_thread::sleep_for(net::time_limits::kBetweenConnects);  // the other machine may be about to listen
  }
}

std::string read_exactly(const Fd& socket, std::size_t bytes, SetupClock::time_point deadline) {
  std::string data(bytes, '\0');
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count = ::recv(socket.get(), data.data() + done, bytes - done, 0);
    if (count == 0) throw ClosedError({"talk to", "the pool", "it closed the connection", "look at its log"});
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EAGAIN && errno != EINTR) {
      throw_failed_talk();
    } else if (!wait_ready(socket, POLLIN, deadline)) {
      throw_silent_peer();
    }
  }
  return data;
}

void write_all(const Fd& socket, std::string_view bytes, SetupClock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EAGAIN && errno != EINTR) {
      throw_failed_talk();
    } else if (!wait_ready(socket, POLLOUT, deadline)) {
      throw_silent_peer();
    }
  }
}

}  // namespace farside::net
