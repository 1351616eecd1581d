// guest_link.h — a guest's side of its link to a service of the pool (guests.h): a socket whose end says that the other
// side is gone.
//
// Thread safety: one thread at a time; what, failure and watch: any thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "farside/base/error.h"
#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "base/wire.h"
#include "team/event_loop.h"
#include "team/introduction.h"
#include "team/service_messages.h"

namespace farside {

class GuestLink {
 public:
  /// Connects and shakes hands. Throws Error when no service answers, or not with this secret.
  GuestLink(Introduced what, const Secret& secret, SetupClock::time_point deadline);

  [[nodiscard]] const Introduced& what() const noexcept { return what_; }

  // Throw Error when the deadline passes, or the other side is gone.
  void send(const std::string& message, SetupClock::time_point deadline);
  [[nodiscard]] std::string receive(SetupClock::time_point deadline);
  /// One that must be `wanted`, of `messages`. Their Kind has `refused`: why, and the end.
  template <class Kind>
  [[nodiscard]] std::string receive(const ServiceMessages<Kind>& messages, Kind wanted,
                                    SetupClock::time_point deadline) {
    std::string message = receive(deadline);
    const Kind kind = messages.kind_of(message);
    if (kind == wanted) return message;
    throw failure(kind == Kind::refused ? messages.text_of(message) : "it answers something else");
  }
  /// Sends what the other side hears within a second, or can do without: the end of the link says the same.
  void try_to_send(const std::string& message) noexcept;
  [[nodiscard]] Error failure(const std::string& why) const;

  /// Has `loop` call `ended`, once, when the other side is gone. `ended` keeps this: a descriptor stays open until the
  /// loop forgets it. Nothing comes but answers, for which their caller waits, so the end alone is watched for.
  void watch(EventLoop& loop, const std::function<void()>& ended) const;

 private:
  const Introduced what_;
  const Fd socket_;
  Session session_;
};

/// Returns the Link to the first of `entries` that answers. Throws Error: why the last one does not, or `none` without
/// any.
template <class Link>
[[nodiscard]] std::shared_ptr<Link> link_to_any(std::span<const std::string> entries, const Secret& secret,
                                                SetupClock::time_point deadline, const Failure& none) {
  Error failed(none);
  for (const std::string& entry : entries) {
    try {
      return std::make_shared<Link>(entry, secret, deadline);
    } catch (const Error& error) {
      failed = error;
    }
  }
  throw Error(failed);
}

/// The description that each service gives of itself, for a client that is to reach its memory.
struct ServiceGreeting {
  std::string version;  ///< of farside
  FabricMode mode = FabricMode::automatic;
  bool remote_peers = false;  ///< guests of other hosts may come
  std::string fabric;         ///< its address there

  /// Returns the greeting of this process.
  [[nodiscard]] static ServiceGreeting of(Fabric& fabric, bool remote_peers);
  /// Throws Error when this program cannot be a guest of who said that.
  void expect_compatible(const Introduced& what) const;

  void encode(Encoder& out) const;
  [[nodiscard]] static ServiceGreeting decode(Decoder& in);
};

}  // namespace farside
