// far_lender.h — a node's part of far memory: it lends, in a thread of its own.
#pragma once

#include <cstdint>
#include <thread>

#include "farside/team/team.h"

#include "far/service/lender_service.h"
#include "node/service_addresses.h"

namespace farside::node {

class FarLender {
 public:
  /// Collective. Lends `bytes` until destroyed. Throws Error when it cannot listen, or has not the memory.
  FarLender(const PoolDirectory& pool, team::Team& team, std::uint64_t bytes);

 private:
  const ServiceAddresses addresses_;
  far::LenderService service_;
  std::jthread thread_;
};

}  // namespace farside::node
