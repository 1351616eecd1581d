#include "service/service_fabric.h"

#include <utility>

#include "farside/fabric/host.h"

#include "net/socket.h"
#include "service/time_limits.h"

namespace farside::service {

namespace {

std::unique_ptr<Fabric> make_fabric(FabricMode mode, bool remote_peers, const net::Secret& secret,
                                    std::span<const std::string> addresses) {
  HostFabricOptions options{.mode = mode, .remote_peers = remote_peers, .secret = secret.for_fabric()};
  for (const std::string& address : addresses) {
    if (options.network.empty()) options.network = net::network_towards(address);
  }
  return make_host_fabric(std::move(options));
}

}  // namespace

std::unique_ptr<Fabric> make_service_fabric(PeerId self, bool remote_peers, const net::Secret& secret,
                                            std::span<const std::string> listening) {
  auto fabric = make_fabric(fabric_mode_from_environment(), remote_peers, secret, listening);
  fabric->connect(self, fabric->address());
  return fabric;
}

std::unique_ptr<Fabric> make_client_fabric(const ServiceHello& hello, const net::Secret& secret,
                                           std::span<const std::string> addresses) {
  return make_fabric(hello.mode, hello.remote_peers, secret, addresses);
}

OwnBell::OwnBell(Fabric& fabric, PeerId self, const Region& region, std::uint64_t offset)
    : fabric_(fabric),
      region_(fabric.attach(self, region.handle())),
      word_(region_->word<AtomicWord>(offset)),
      channel_(fabric.open_channel()) {}

void OwnBell::ring() {
  const MutexLock lock(mutex_);
  (void)channel_->add_signal(word_, 1, fabric_.in(service::time_limits::kRing));  // the service looks anyway, later
}

}  // namespace farside::service
