// standby_seeker.h — looks for another standby for a server that is alone: a process at the standby's address that has
// nothing yet. A thread that sleeps otherwise connects, so that the one that serves never waits.
//
// Thread safety: one thread at a time.
#pragma once

#include <condition_variable>
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
  };

  /// Seeks the standby of server `self` at `address`.
  StandbySeeker(Fabric& fabric, const net::Secret& secret, std::string address, ServerNumber self);

  /// Returns the one that was found since the last call, once. None: it is sought, at once and then every second. The
  /// former's access is no concern any more, and the fabric counts it as lost.
  [[nodiscard]] std::optional<Found> find();

 private:
  void seek_when_wanted(const std::stop_token& stop);
  [[nodiscard]] Found seek() const;

  Fabric& fabric_;
  const net::Secret secret_;
  const std::string address_;
  const ServerNumber self_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool is_wanted_ GUARDED_BY(mutex_) = false;
  std::optional<Found> found_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace farside::kv
