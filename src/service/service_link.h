// service_link.h — a client's side of its link to a service of the pool (service_clients.h): a socket whose end says
// that the other side is gone.
//
// Thread safety: one thread at a time; what, failure and watch: any thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "farside/base/error.h"
#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "base/backoff.h"
#include "base/wire.h"
#include "net/event_loop.h"
#include "net/introduction.h"
#include "service/service_messages.h"
#include "service/time_limits.h"

namespace farside::service {

class ServiceLink {
 public:
  /// Connects, shakes hands and waits for the service's welcome. Throws Error when no service answers, or not with this
  /// secret.
  ServiceLink(const net::Introduced& what, const net::Secret& secret, net::SetupClock::time_point deadline);

  [[nodiscard]] const net::Introduced& what() const noexcept { return what_; }

  // Throw Error when the deadline passes, or the other side is gone.

  void send(const std::string& message, net::SetupClock::time_point deadline);
  /// At first its welcome.
  [[nodiscard]] std::string receive(net::SetupClock::time_point deadline);
  /// One that must be `wanted`, of `messages`. Their Kind has `refused`: why, and the end.
  template <class Kind>
  [[nodiscard]] std::string receive(const ServiceMessages<Kind>& messages, Kind wanted,
                                    net::SetupClock::time_point deadline) {
    std::string message = receive(deadline);
    const Kind kind = messages.kind_of(message);
    if (kind == wanted) return message;
    throw failure(kind == Kind::refused ? messages.text_of(message) : "it answers something else");
  }
  /// Sends what the other side hears within a second, or can do without: the end of the link says the same.
  void try_to_send(const std::string& message) noexcept;
  [[nodiscard]] Error failure(const std::string& why) const;
  /// Ends it: the other side learns of that, and `ended` of watch is called. Any thread.
  void hang_up() const noexcept;

  /// Has `loop` call `ended`, once, when the other side is gone. `ended` keeps this: a descriptor stays open until the
  /// loop forgets it. Nothing comes but answers, for which their caller waits, so the end alone is watched for.
  void watch(net::EventLoop& loop, const std::function<void()>& ended) const;

 private:
  ServiceLink(net::Introduced what, net::Acquaintance met);

  const net::Introduced what_;
  const Fd socket_;
  net::Session session_;
  std::optional<net::Frame> welcome_;  ///< until it is received
};

/// Whether another attempt may succeed after one that was to last until `end` failed with `error`: the service did not
/// answer by then, or too many clients came at once.
[[nodiscard]] bool may_answer_later(const Error& error, net::SetupClock::time_point end);

/// The time for each attempt in a round of them, for which the next round gives more.
[[nodiscard]] constexpr Backoff<net::SetupClock::duration> attempt_times() {
  return {service::time_limits::kFirstTry, service::time_limits::kMaxTry};
}

/// Returns the Link to the first of `entries` that answers. Goes round them until the deadline, as long as any may
/// answer later. Throws Error: why the last one does not answer, or `none` without entries.
template <class Link>
[[nodiscard]] std::shared_ptr<Link> link_to_any(std::span<const std::string> entries, const net::Secret& secret,
                                                net::SetupClock::time_point deadline, const Failure& none) {
  Error failed(none);
  for (Backoff<net::SetupClock::duration> times = attempt_times();;) {
    const net::SetupClock::duration time = times.next();
    bool may_any_answer = false;
    for (const std::string& entry : entries) {
      const auto until = std::min(deadline, net::SetupClock::now() + time);
      try {
        return std::make_shared<Link>(entry, secret, until);
      } catch (const Error& error) {
        failed = error;
        may_any_answer = may_any_answer || may_answer_later(error, until);
      }
    }
    if (!may_any_answer || net::SetupClock::now() >= deadline) throw Error(failed);
  }
}

/// The description that each service gives of itself, for a client that is to reach its memory.
struct ServiceHello {
  std::string version;  ///< of farside
  FabricMode mode = FabricMode::automatic;
  bool remote_peers = false;  ///< clients of other hosts may come
  std::string fabric;         ///< its address there

  /// Returns the hello of this process.
  [[nodiscard]] static ServiceHello of(Fabric& fabric, bool remote_peers);
  /// Throws Error when this program cannot be a client of the service that said so.
  void expect_compatible(const net::Introduced& what) const;

  void encode(Encoder& out) const;
  [[nodiscard]] static ServiceHello decode(Decoder& in);
};

}  // namespace farside::service
