// peer.h — what an engine knows about others, shared with the channels that post to them.
//
// Stands alone: engine, channel and link share it, and none of them owns the others.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "farside/fabric/region.h"

#include "fabric/ucx/messages.h"

namespace farside {

/// One incarnation of a peer.
struct UcxPeer {
  const PeerId id;
  const UcxIdentity identity;
  const std::string service_address;  ///< UCX's address of its service worker
  std::atomic<bool> lost = false;     ///< for good
};

class UcxAccess final : public RemoteAccess {
 public:
  UcxAccess(std::shared_ptr<UcxPeer> peer, std::shared_ptr<const UcxRemoteMemory> memory)
      : peer_(std::move(peer)), memory_(std::move(memory)) {}

  [[nodiscard]] const std::shared_ptr<UcxPeer>& peer() const noexcept { return peer_; }
  [[nodiscard]] const std::shared_ptr<const UcxRemoteMemory>& memory() const noexcept { return memory_; }

 private:
  std::shared_ptr<UcxPeer> peer_;
  std::shared_ptr<const UcxRemoteMemory> memory_;
};

}  // namespace farside
