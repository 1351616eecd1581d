// host_fabric.h — the fabric of a real machine (fabric.h). Everything that it made must go before it does.
#pragma once

#include <atomic>
#include <map>

#include "farside/fabric/fabric.h"

#include "base/mutex.h"
#include "fabric/host/address.h"
#include "fabric/host/host_region.h"
#include "fabric/host/peer_table.h"
#include "fabric/ucx/engine.h"

namespace farside {

class HostFabric final : public Fabric {
 public:
  explicit HostFabric(HostFabricOptions options);

  [[nodiscard]] std::unique_ptr<Region> create_region(std::string name, std::uint64_t bytes) override;
  [[nodiscard]] std::string address() override;
  void connect(PeerId peer, std::string_view address) override;
  [[nodiscard]] std::unique_ptr<RemoteRegion> attach(PeerId peer, std::string_view handle) override;
  [[nodiscard]] std::unique_ptr<Channel> open_channel() override;

  using Fabric::mark_lost;
  using Fabric::revoke;
  [[nodiscard]] PeerLife life(PeerId peer) const override { return peers_.life(peer); }
  void mark_lost(PeerId peer, PeerLife life) override;
  [[nodiscard]] bool lost(PeerId peer) const override;
  [[nodiscard]] bool reaches_by_memory(PeerId peer) const override {
    return peers_.way(peer) == PeerTable::Way::direct;
  }
  Outcome revoke(PeerId peer, PeerLife life, Deadline deadline) override;

  void stop_answering() const {
    if (ucx_ != nullptr) ucx_->stop_answering();
  }

  [[nodiscard]] Time now() const override;
  [[nodiscard]] Time lately() const override;
  void sleep(Duration duration) override;
  [[nodiscard]] std::uint64_t random() override;

 private:
  struct Peer {
    ProcessId process;
    PeerLife life;
    std::shared_ptr<UcxPeer> over_ucx;  ///< null: directly
    bool is_self;
  };
  /// Returns the process that a peer number was last connected to, dead or alive. Throws Error when it never was.
  [[nodiscard]] Peer peer(PeerId number) const;
  /// Throws Error when there is no way.
  [[nodiscard]] PeerTable::Way way_to(PeerId number, const ProcessAddress& address) const;

  const HostFabricOptions options_;
  PeerTable peers_;
  RegionSet regions_;
  AccessSet accesses_;
  std::unique_ptr<UcxEngine> ucx_;  ///< null unless remote peers may come; goes before what it wakes
  ProcessAddress self_;

  mutable Mutex mutex_;
  std::map<PeerId, Peer> known_ GUARDED_BY(mutex_);

  std::atomic<std::uint64_t> random_state_;
};

}  // namespace farside
