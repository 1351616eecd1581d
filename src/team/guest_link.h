// guest_link.h — a guest's side of its link to a service of the pool (guests.h): a socket whose end says that the other
// side is gone.
//
// Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <string>

#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "base/wire.h"
#include "team/event_loop.h"
#include "team/introduction.h"

namespace farside {

class GuestLink {
 public:
  /// Connects and shakes hands. Throws Error when nobody answers, or not with this secret.
  GuestLink(Introduced what, const Secret& secret, std::size_t body_limit, SetupClock::time_point deadline);

  [[nodiscard]] const Introduced& what() const noexcept { return what_; }

  // Throw Error when the deadline passes, or the other side is gone.
  void send(const std::string& message, SetupClock::time_point deadline);
  [[nodiscard]] std::string receive(SetupClock::time_point deadline);

  /// Has `loop` call `ended`, once, when the other side is gone. `ended` keeps this: a descriptor stays open until the
  /// loop forgets it. Nothing comes but answers, for which whoever asked waits, so the end alone is watched for.
  void watch(EventLoop& loop, const std::function<void()>& ended) const;

 private:
  const Introduced what_;
  const std::size_t body_limit_;
  const Fd socket_;
  Session session_;
};

/// What each service says of itself, for whoever is to reach its memory.
struct ServiceGreeting {
  std::string version;  ///< of farside
  FabricMode mode = FabricMode::automatic;
  bool remote_peers = false;  ///< guests of other hosts may come
  std::string fabric;         ///< its address there

  /// Of this process.
  [[nodiscard]] static ServiceGreeting of(Fabric& fabric, bool remote_peers);
  /// Throws Error when this program cannot be a guest of who said that.
  void expect_compatible(const Introduced& what) const;

  void encode(Encoder& out) const;
  [[nodiscard]] static ServiceGreeting decode(Decoder& in);
};

}  // namespace farside
