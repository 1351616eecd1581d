// service_fabric.h — what a service of the pool stands on: a fabric where guests reach its memory, and a bell that
// wakes the thread that serves them.
#pragma once

#include <cstdint>
#include <memory>

#include "farside/fabric/fabric.h"

#include "base/mutex.h"

namespace farside {

/// Makes a fabric of the mode that the environment names. The service itself is its peer `self`.
[[nodiscard]] std::unique_ptr<Fabric> make_service_fabric(PeerId self, bool remote_peers);

/// Rings as guests do, from inside the service.
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

}  // namespace farside
