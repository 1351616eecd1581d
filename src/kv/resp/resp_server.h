// resp_server.h — serves the Redis protocol on a port, with a few threads that sleep while there are no requests.
//
// Each thread has an event loop and a session of its own; a client stays with one (resp_worker.h).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>

#include "farside/kv/session.h"

#include "kv/resp/client.h"
#include "kv/resp/overseer.h"
#include "kv/resp/resp_worker.h"
#include "net/event_loop.h"
#include "net/listener.h"

namespace farside::kv {

class RespServer {
 public:
  using OpenSession = std::function<std::unique_ptr<Session>()>;

  /// Listens on `addresses` (net/listener.h) and serves until destroyed. Each of the threads has sessions of its own,
  /// one of which is opened here, and the others soon by another thread. By `clock` it knows which calls take long;
  /// none: by that of the system. Throws Error when it cannot listen.
  RespServer(const std::vector<std::string>& addresses, RespSettings settings, std::size_t threads,
             const OpenSession& open_session, std::unique_ptr<OverseerClock> clock = nullptr);
  ~RespServer();
  RespServer(const RespServer&) = delete;
  RespServer& operator=(const RespServer&) = delete;

  /// The addresses at which it listens, with the ports that the kernel chose.
  [[nodiscard]] const std::list<net::Listener>& listeners() const noexcept { return listeners_; }
  [[nodiscard]] const RespStatus& status() const noexcept { return status_; }

 private:
  void accept_client(const net::Listener& listener);
  /// A client that was accepted, and where it is.
  struct Accepted {
    Fd socket;  ///< none, with errno set: no client could be accepted
    sockaddr_storage address;
  };
  [[nodiscard]] static Accepted accept(const net::Listener& listener);
  void turn_away_without_descriptors(const net::Listener& listener);

  RespStatus status_;
  std::uint64_t next_client_ = 1;
  std::list<net::Listener> listeners_;
  Fd spare_;  // for a client that comes when there are no descriptors left
  const std::unique_ptr<OverseerClock> clock_;
  Overseer overseer_;
  std::vector<std::unique_ptr<RespWorker>> workers_;
  net::EventLoop accepting_;
};

}  // namespace farside::kv
