#include "tests/support/fleet_team.h"

#include <unistd.h>

#include "tests/support/mesh.h"

namespace farside::test {

FleetTeam::FleetTeam(Member& me) : me_(me), fabric_(make_fabric_under_test(me)) {
  const std::vector<std::string> addresses = me_.exchange(fabric_->address());
  const std::vector<std::string> pids = me_.exchange(std::to_string(::getpid()));
  for (team::Rank rank = 0; rank < size(); ++rank) {
    fabric_->connect(rank, addresses[rank]);
    if (rank == this->rank()) continue;
    const auto lose = [this, rank, life = fabric_->life(rank)] { fabric_->mark_lost(rank, life); };
    watches_.push_back(std::make_unique<DeathWatch>(std::stoi(pids[rank]), lose));
  }
}

std::unique_ptr<team::SymmetricRegion> FleetTeam::allocate(const std::string& name, std::uint64_t bytes) {
  auto local = fabric_->create_region(name, bytes);
  const std::vector<std::string> handles = me_.exchange(local->handle());
  std::vector<std::unique_ptr<RemoteRegion>> pieces;
  for (team::Rank rank = 0; rank < size(); ++rank) pieces.push_back(fabric_->attach(rank, handles[rank]));
  me_.barrier();  // from here on all members may use all pieces
  return std::make_unique<team::SymmetricRegion>(std::move(local), std::make_shared<team::Pieces>(std::move(pieces)));
}

Outcome FleetTeam::barrier(Deadline /*deadline*/) {
  me_.barrier();
  return Outcome::done;
}

Outcome FleetTeam::evict(team::Rank rank, Deadline deadline) { return fabric_->revoke(rank, deadline); }

}  // namespace farside::test
