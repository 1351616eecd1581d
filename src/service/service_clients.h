// service_clients.h — a service's clients from outside the pool: each connects, proves to know the pool's secret, and
// is admitted as long as its socket is open. A Handler answers its messages.
//
// Thread safety: for the loop's thread, but for construction and destruction.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farside/base/fd.h"

#include "base/metrics.h"
#include "base/throttled_log.h"
#include "net/connection.h"
#include "net/event_loop.h"
#include "net/introduction.h"
#include "net/listener.h"

namespace farside::service {

class ServiceClients {
 public:
  using Number = std::uint64_t;  ///< never given twice
  /// Why one is sent away; none while it behaves.
  using Refusal = net::Introduction::Refusal;

  /// Called on the loop's thread.
  class Handler {
   public:
    virtual ~Handler() = default;
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;

    /// The first message to a client that is admitted.
    [[nodiscard]] virtual std::string welcome() = 0;
    /// Handles a client's message. The client is sent away as well if this throws Error.
    [[nodiscard]] virtual Refusal handle(Number number, const std::string& message) = 0;
    /// The last message to a client that is sent away.
    [[nodiscard]] virtual std::string refusal(const std::string& reason) const = 0;
    /// It is gone, or was sent away.
    virtual void part(Number number) = 0;

   protected:
    Handler() = default;
  };

  /// Listens at `addresses` (net/listener.h; the pool's lock says that no other service does) from construction on
  /// until `loop` is stopped, which must be before this goes.
  ServiceClients(net::EventLoop& loop, const net::Secret& secret, Handler& handler,
                 const std::vector<std::string>& addresses);
  ServiceClients(const ServiceClients&) = delete;
  ServiceClients& operator=(const ServiceClients&) = delete;

  /// Requires that the client is admitted.
  void say(Number number, const std::string& message);

 private:
  /// A connected client: unauthenticated until it has a session.
  struct Connected {
    const net::Listener* listener;
    std::unique_ptr<net::Connection> connection;
    net::SetupClock::time_point came;
    net::Introduction introduction{};
    std::optional<net::Session> session{};
  };

  void accept(const net::Listener& listener);
  void serve(Number number);
  Refusal advance(Number number, Connected& connected);
  Refusal shake_hands(Number number, Connected& connected);
  void refuse(Number number, const std::string& reason);
  void part(Number number);
  // At one listener, or at all: null.
  [[nodiscard]] static bool is_unauthenticated(const Connected& connected, const net::Listener* at);
  [[nodiscard]] std::size_t unauthenticated(const net::Listener* at) const;
  bool refuse_oldest_unauthenticated(const net::Listener* at, const std::string& reason);  ///< false: there is none
  void keep_time();
  void refuse_the_slow();

  net::EventLoop& loop_;
  const net::Secret secret_;
  Handler& handler_;
  std::list<net::Listener> listeners_;
  std::map<Number, Connected> connected_;  // by age
  Number next_ = 0;
  bool ticking_ = false;
  ThrottledLog log_;
  metrics::Counter refused_{{"farside_service_clients_refused_total",
                             "Clients of the node's services that were refused, or sent away for what they sent."}};
};

}  // namespace farside::service
