// service_fabric.h — what a service of the pool stands on: a fabric where clients reach its memory, and a bell that
// wakes the thread that serves them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "farside/fabric/fabric.h"

#include "base/mutex.h"
#include "net/secret.h"
#include "service/service_link.h"

namespace farside::service {

/// Makes a service's fabric, of the mode that the environment names, where it is its own peer `self`. ServiceClients
/// know `secret`; `listening` is where they find it.
[[nodiscard]] std::unique_ptr<Fabric> make_service_fabric(PeerId self, bool remote_peers, const net::Secret& secret,
                                                          std::span<const std::string> listening);

/// Makes a client's fabric, as the service that it reached has said. Services are found at `addresses`.
[[nodiscard]] std::unique_ptr<Fabric> make_client_fabric(const ServiceHello& hello, const net::Secret& secret,
                                                         std::span<const std::string> addresses);

/// Rings as clients do, from inside the service.
///
/// Thread safety: every call, from any thread.
class OwnBell {
 public:
  /// The bell is the AtomicWord at `offset` of `region`, which is that of peer `self`: this process.
  OwnBell(Fabric& fabric, PeerId self, const Region& region, std::uint64_t offset);

  void ring();

 private:
  Fabric& fabric_;
  const std::unique_ptr<RemoteRegion> region_;  ///< through the loopback
  const RemoteWord<AtomicWord> word_;
  Mutex mutex_;
  const std::unique_ptr<Channel> channel_ PT_GUARDED_BY(mutex_);
};

}  // namespace farside::service
