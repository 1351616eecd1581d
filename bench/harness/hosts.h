// hosts.h — two "hosts" made of this machine's network namespaces, joined by a cable: what crosses goes by TCP, through
// a network stack on either side. Only root can make them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "bench/harness/entrant.h"

namespace farside::bench {

class Hosts {
 public:
  /// Throws Error.
  Hosts();

  /// What lends is on the one, what uses it on the other.
  [[nodiscard]] Fabric fabric() const;

 private:
  [[nodiscard]] static std::vector<std::string> enter(const std::string& process);

  Contender user_;  ///< a process that holds the namespaces, and does nothing
  std::string user_process_;
  Contender lender_;
  std::string lender_process_;
};

}  // namespace farside::bench
