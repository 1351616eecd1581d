#include "node/far_lender.h"

namespace farside::node {

namespace {

far::LenderOptions options_of(const ServiceAddresses& addresses, team::Team& team, std::uint64_t bytes) {
  return {.self = team.rank(),
          .nodes = [&addresses] { return addresses.all(); },
          .listen = addresses.own(),
          .remote_peers = addresses.on_several_machines(),
          .bytes = bytes};
}

}  // namespace

FarLender::FarLender(const PoolDirectory& pool, team::Team& team, std::uint64_t bytes)
    : addresses_(pool, team, far::kServiceName, 1 + team.size()),  // kv's ports come first
      service_(options_of(addresses_, team, bytes), pool_secret()),
      thread_([this](const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] { service_.wake(); });
        service_.serve_until([&stop] { return stop.stop_requested(); });
      }) {}

}  // namespace farside::node
