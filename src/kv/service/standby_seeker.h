// standby_seeker.h — looks for a standby for a server that is alone: a process at the address of the partition's other
// seat that has nothing yet. A thread that sleeps otherwise connects, so that the one that serves never waits.
//
// Thread safety: one thread at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "farside/fabric/fabric.h"

#include "base/mutex.h"
#include "kv/service/server_link.h"

namespace farside::kv {

class StandbySeeker {
 public:
  struct Found {
    std::unique_ptr<ServerLink> link;
    std::unique_ptr<RemoteRegion> ring;  ///< where changes go
    std::string address;
  };
  /// Whether the process that had the other seat in that incarnation is dead.
  using IsDead = std::function<bool(std::uint16_t incarnation)>;

  /// `self`: as the server that is alone says of itself. `address`: where the other seat is now; it may block.
  StandbySeeker(Fabric& fabric, const net::Secret& secret, std::function<std::string()> address, Welcome self,
                IsDead is_dead);

  /// Returns the one that was found since the last call, once. None: it is sought, at once and then every 100 ms. The
  /// former's access is no concern any more, and the fabric counts it as lost.
  [[nodiscard]] std::optional<Found> find();

 private:
  void seek_when_wanted(const std::stop_token& stop);
  [[nodiscard]] Found seek() const;

  Fabric& fabric_;
  const net::Secret secret_;
  const std::function<std::string()> address_;
  const Welcome self_;
  const IsDead is_dead_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool is_wanted_ GUARDED_BY(mutex_) = false;
  std::optional<Found> found_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace farside::kv
