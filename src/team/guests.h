// guests.h — who comes to a service of the pool from outside it: connects, proves to know the pool's secret, and is a
// guest as long as its socket is open. What is said then is the host's business.
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

#include "base/throttled_log.h"
#include "team/connection.h"
#include "team/event_loop.h"
#include "team/introduction.h"
#include "team/listener.h"

namespace farside {

class Guests {
 public:
  using Number = std::uint64_t;  ///< never given twice
  /// Why one is sent away; none while it behaves.
  using Refusal = Introduction::Refusal;

  /// Called on the loop's thread.
  class Host {
   public:
    virtual ~Host() = default;
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    /// The first that a guest hears.
    [[nodiscard]] virtual std::string welcome() = 0;
    /// Handles what a guest says. The guest is sent away as well if this throws Error.
    [[nodiscard]] virtual Refusal obey(Number guest, const std::string& message) = 0;
    /// The last that one hears who is sent away.
    [[nodiscard]] virtual std::string refusal(const std::string& reason) const = 0;
    /// It is gone, or was sent away.
    virtual void part(Number guest) = 0;

   protected:
    Host() = default;
  };

  /// Listens at `addresses` (listener.h; the pool's lock says that no other service does) from construction on until
  /// `loop` is stopped, which must be before this goes.
  Guests(EventLoop& loop, const Secret& secret, Host& host, const std::vector<std::string>& addresses);
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

  /// To a guest.
  void say(Number guest, const std::string& message);

 private:
  /// A connected client: a stranger until it has a session.
  struct Visitor {
    const Listener* listener;
    std::unique_ptr<Connection> connection;
    SetupClock::time_point came;
    Introduction introduction{};
    std::optional<Session> session{};
  };

  void accept(const Listener& listener);
  void serve(Number number);
  Refusal advance(Number number, Visitor& visitor);
  Refusal shake_hands(Number number, Visitor& visitor);
  void refuse(Number number, const std::string& reason);
  void part(Number number);
  // At one listener, or at all: null.
  [[nodiscard]] static bool is_stranger(const Visitor& visitor, const Listener* at);
  [[nodiscard]] std::size_t strangers(const Listener* at) const;
  bool refuse_oldest_stranger(const Listener* at, const std::string& reason);  ///< false: there is none
  void keep_time();
  void refuse_the_slow();

  EventLoop& loop_;
  const Secret secret_;
  Host& host_;
  std::list<Listener> listeners_;
  std::map<Number, Visitor> visitors_;  // by age
  Number next_ = 0;
  bool ticking_ = false;
  ThrottledLog log_;
};

}  // namespace farside
