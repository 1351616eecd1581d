// fleet_team.h — a team of a fleet's members: real processes, over the fabric that the environment names (mesh.h).
//
// Each watches the others, as a real team does, so that a member that dies is lost to the rest.
#pragma once

#include <memory>
#include <vector>

#include "farside/team/team.h"

#include "tests/support/death_watch.h"
#include "tests/support/fleet.h"

namespace farside::test {

class FleetTeam final : public team::Team {
 public:
  /// Collective, as is the end of it: no member's memory goes while another member may use it.
  explicit FleetTeam(Member& me);

  [[nodiscard]] team::Rank rank() const override { return me_.index(); }
  [[nodiscard]] team::Rank size() const override { return me_.count(); }
  [[nodiscard]] Fabric& fabric() override { return *fabric_; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 1; }
  [[nodiscard]] std::unique_ptr<team::SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) override;
  /// Does not notice deaths: for set-up among the living.
  Outcome barrier(Deadline deadline) override;
  [[nodiscard]] std::uint64_t epoch() const override { return 0; }
  Outcome evict(team::Rank rank, Deadline deadline) override;

 private:
  Member& me_;
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::unique_ptr<DeathWatch>> watches_;
};

}  // namespace farside::test
