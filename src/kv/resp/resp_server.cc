#include "kv/resp/resp_server.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace farside::kv {

namespace {

// A thread's, of the buffers of all: a client of it may send the largest request.
constexpr std::size_t kSmallestShare = std::size_t{128} << 20U;
constexpr std::string_view kTooMany = "-ERR max number of clients reached\r\n";

void refuse(const Fd& socket) {
  ::send(socket.get(), kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL);  // if it does not fit, it is not told
}

Fd open_spare() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

std::string name_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(in.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(in.sin6_port));
  }
  return "local";
}

}  // namespace

RespServer::RespServer(const std::vector<std::string>& addresses, RespSettings settings, std::size_t threads,
                       const OpenSession& open_session, std::unique_ptr<OverseerClock> clock)
    : status_(std::move(settings)),
      listeners_(addresses.begin(), addresses.end()),
      spare_(open_spare()),
      clock_(clock == nullptr ? std::make_unique<OverseerClock>() : std::move(clock)),
      overseer_(status_.silent, open_session, *clock_) {
  const std::size_t share = std::max(status_.settings.buffer_bytes / threads, kSmallestShare);
  std::vector<RespWorker*> workers;
  for (std::size_t i = 0; i < threads; ++i) {
    workers_.push_back(std::make_unique<RespWorker>(status_, overseer_, open_session(), share));
    workers.push_back(workers_.back().get());
  }
  overseer_.start(std::move(workers));
  accepting_.post([this] {
    for (const net::Listener& listener : listeners_) {
      accepting_.watch(listener.fd(), EPOLLIN, [this, &listener](std::uint32_t) { accept_client(listener); });
    }
  });
}

RespServer::~RespServer() {
  accepting_.stop();
  overseer_.stop();
}

RespServer::Accepted RespServer::accept(const net::Listener& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  Fd socket(::accept4(listener.fd(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  return {std::move(socket), address};
}

// No client is left to wait in the listener's queue for an answer that does not come.
void RespServer::turn_away_without_descriptors(const net::Listener& listener) {
  spare_.reset();
  if (const auto client = accept(listener); client.socket) {
    refuse(client.socket);
  } else {
    accepting_.rest(listener.fd());
  }
  spare_ = open_spare();
}

void RespServer::accept_client(const net::Listener& listener) {
  auto [socket, address] = accept(listener);
  if (!socket) {
    if (errno == EMFILE || errno == ENFILE) turn_away_without_descriptors(listener);
    return;
  }
  if (++status_.clients > status_.settings.clients) {
    --status_.clients;
    return refuse(socket);
  }
  ++status_.connections;
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // replies are awaited
  const std::uint64_t id = next_client_++;
  workers_[id % workers_.size()]->admit(std::move(socket), id, name_of(address));
}

}  // namespace farside::kv
