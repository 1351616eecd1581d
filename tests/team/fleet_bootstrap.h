// fleet_bootstrap.h — how the members of a fleet find each other as a team of real processes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "team/bootstrap.h"
#include "tests/support/fleet.h"

namespace farside::test {

/// Of a team of a fleet's members.
class FleetBootstrap final : public team::Bootstrap {
 public:
  /// No member is told of an eviction, even where `says_that_it_tells`.
  explicit FleetBootstrap(Member& me, bool says_that_it_tells = false)
      : me_(me), says_that_it_tells_(says_that_it_tells) {}

  [[nodiscard]] team::Rank rank() const override { return me_.index(); }
  [[nodiscard]] team::Rank size() const override { return me_.count(); }
  [[nodiscard]] std::uint16_t incarnation() const override { return 0; }
  [[nodiscard]] std::vector<std::string> exchange(const std::string& /*tried*/, std::string blob,
                                                  net::SetupClock::time_point /*deadline*/) override {
    return me_.exchange(blob);
  }
  void evict(team::Rank /*rank*/, std::uint16_t /*incarnation*/) override {}
  [[nodiscard]] bool tells_of_evictions() const override { return says_that_it_tells_; }
  void leave() override {}

 private:
  Member& me_;
  const bool says_that_it_tells_;
};

}  // namespace farside::test
