#include "kv_baselines/transports/socket_inbox.h"

#include <array>
#include <memory>
#include <span>
#include <thread>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "farside/base/error.h"

#include "kv_baselines/transports/socket_stream.h"
#include "net/socket.h"

namespace farside::kv_baselines {

namespace {

constexpr int kAtOnceServed = 64;
constexpr auto kPauseAfterFailedAccept = std::chrono::milliseconds(1);

void control(const Fd& epoll, int operation, int descriptor, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = descriptor}};
  if (::epoll_ctl(epoll.get(), operation, descriptor, &event) != 0) throw errno_error("watch", "a socket");
}

}  // namespace

SocketInbox::SocketInbox(const Fabric& fabric, const std::string& address)
    : fabric_(fabric),
      listener_(net::listen_on(address)),
      address_(net::bound_address(listener_, address)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw errno_error("make", "an epoll instance");
  control(epoll_, EPOLL_CTL_ADD, listener_.get(), EPOLLIN);
}

bool SocketInbox::serve(const Answer& answer, Duration pause) {
  std::array<epoll_event, kAtOnceServed> events{};
  const auto pause_ms = std::chrono::ceil<std::chrono::milliseconds>(pause).count();
  const int count = ::epoll_wait(epoll_.get(), events.data(), kAtOnceServed, static_cast<int>(pause_ms));
  bool any = false;
  for (const epoll_event& event : std::span(events).first(count > 0 ? static_cast<std::size_t>(count) : 0)) {
    const int descriptor = event.data.fd;
    if (descriptor == listener_.get()) {
      accept();
      continue;
    }
    Client& client = clients_.at(descriptor);
    any = client.stream.serve(answer) || any;
    if (client.stream.has_ended()) {
      clients_.erase(descriptor);  // which the kernel forgets when it is closed
    } else {
      watch(descriptor, client);
    }
  }
  return any;
}

void SocketInbox::release(const Revision& revision) {
  for (auto& [descriptor, client] : clients_) {
    client.stream.release(revision);
    watch(descriptor, client);
  }
}

// One that cannot be accepted is tried again when serve comes by next, which would be at once.
void SocketInbox::accept() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    std::this_thread::sleep_for(kPauseAfterFailedAccept);
    return;
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // replies are awaited
  const int descriptor = socket.get();
  control(epoll_, EPOLL_CTL_ADD, descriptor, EPOLLIN);
  clients_.try_emplace(descriptor, Client{ServedStream(std::make_unique<SocketStream>(fabric_, std::move(socket)))});
}

void SocketInbox::watch(int descriptor, Client& client) {
  const bool awaits_room = client.stream.waits_for_room();
  if (awaits_room == client.awaited_room) return;
  client.awaited_room = awaits_room;
  control(epoll_, EPOLL_CTL_MOD, descriptor, awaits_room ? EPOLLOUT : EPOLLIN);
}

}  // namespace farside::kv_baselines
