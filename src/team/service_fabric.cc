#include "team/service_fabric.h"

#include "farside/fabric/host.h"

namespace farside {

namespace {

constexpr Duration kRing = std::chrono::seconds(1);

}  // namespace

std::unique_ptr<Fabric> make_service_fabric(PeerId self, bool remote_peers) {
  auto fabric = make_host_fabric({.mode = fabric_mode_from_environment(), .remote_peers = remote_peers});
  fabric->connect(self, fabric->address());
  return fabric;
}

OwnBell::OwnBell(Fabric& fabric, PeerId self, const Region& region, std::uint64_t offset)
    : fabric_(fabric),
      region_(fabric.attach(self, region.handle())),
      word_(region_->word<AtomicWord>(offset)),
      channel_(fabric.open_channel()) {}

void OwnBell::ring() {
  const MutexLock lock(mutex_);
  (void)channel_->add_signal(word_, 1, fabric_.in(kRing));  // who serves looks anyway, later
}

}  // namespace farside
