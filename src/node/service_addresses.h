// service_addresses.h — where each node of a pool serves something: sockets in the pool's directory, or, of a pool on
// several machines, ports that the nodes tell one another.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "farside/team/team.h"

#include "net/secret.h"
#include "node/pool/pool_directory.h"

namespace farside::node {

/// That of the pool whose node this process is. Throws Error when it is none.
[[nodiscard]] net::Secret pool_secret();

class ServiceAddresses {
 public:
  /// Collective. Of a pool on several machines, `service` is on port `first_port` above that of the coordinator, plus
  /// the rank. Throws Error when a node does not tell.
  ServiceAddresses(const PoolDirectory& pool, team::Team& team, std::string_view service, unsigned first_port);

  [[nodiscard]] bool on_several_machines() const noexcept { return told_ != nullptr; }
  /// By rank.
  [[nodiscard]] const std::vector<std::string>& all() const noexcept { return all_; }
  /// The addresses on which this node is to listen.
  [[nodiscard]] const std::vector<std::string>& own() const noexcept { return own_; }

 private:
  std::unique_ptr<team::SymmetricRegion> told_;  ///< of each rank its own, for the others; null on one machine
  std::vector<std::string> all_;
  std::vector<std::string> own_;
};

}  // namespace farside::node
