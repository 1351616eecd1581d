#include "sim/world.h"

#include "farside/base/error.h"

namespace farside::sim {

namespace {
constexpr Duration kSetUp = std::chrono::seconds(30);
constexpr Duration kLook = std::chrono::microseconds(50);
}  // namespace

World::World(std::uint64_t seed, Rank processes, const Network& network)
    : network_(network), scheduler_(seed), wires_(scheduler_, network_) {
  for (Rank rank = 0; rank < processes; ++rank) {
    fabrics_.push_back(std::make_unique<SimFabric>(wires_, rank));
    teams_.push_back(std::make_unique<SimTeam>(*this, rank, processes));
  }
  for (const auto& fabric : fabrics_) {
    for (Rank peer = 0; peer < processes; ++peer) fabric->connect(peer, fabrics_[peer]->address());
  }
}

World::World(std::uint64_t seed, Rank processes, const Machine& machine)
    : World(seed, processes, Network{.buffers_stores = false, .slow_process = {}, .clocks_drift = false}) {
  wires_.run_on(machine, processes);
}

void World::read_file(Rank reader, std::uint64_t offset, std::uint64_t bytes) {
  const Scheduler::Ticket ticket = scheduler_.ticket();
  wires_.timing()->read_file(reader, offset, bytes, [this, ticket] { scheduler_.go_on(ticket); });
  scheduler_.sleep_until_gone_on();
}

void World::kill(Rank rank) {
  scheduler_.kill(rank);
  ++deaths_;
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank) continue;
    scheduler_.after(scheduler_.up_to(network_.detection), [this, other, rank] { fabrics_[other]->mark_lost(rank); });
  }
}

void World::pause(Rank rank, Duration duration) {
  scheduler_.pause(rank);
  scheduler_.after(duration, [this, rank] { scheduler_.resume(rank); });
}

void World::heal() {
  wires_.heal();
  network_.lands_late = false;
  network_.stalls_before_posting = false;
  for (Rank rank = 0; rank < size(); ++rank) scheduler_.resume(rank);
}

Fabric& SimTeam::fabric() { return world_.fabric(rank_); }

std::unique_ptr<SymmetricRegion> SimTeam::allocate(const std::string& name, std::uint64_t bytes) {
  auto local = fabric().create_region(name, bytes);
  auto& handles = world_.meetings_["allocate " + name];
  handles[rank_] = local->handle();
  const Deadline deadline = fabric().in(kSetUp);
  while (handles.size() < size_) {
    if (fabric().now() >= deadline.at) {
      throw Error({"allocate", name, "not all ranks have come", "call it on all ranks in the same order"});
    }
    fabric().sleep(kLook);
  }
  std::vector<std::unique_ptr<RemoteRegion>> remotes;
  for (Rank rank = 0; rank < size_; ++rank) remotes.push_back(fabric().attach(rank, handles.at(rank)));
  return std::make_unique<SymmetricRegion>(std::move(local), std::move(remotes));
}

Outcome SimTeam::barrier(Deadline deadline) {
  auto& arrived = world_.meetings_["barrier " + std::to_string(barriers_++)];
  arrived[rank_] = "";
  while (arrived.size() < size_) {
    if (world_.deaths_ != 0) return Outcome::peer_lost;
    if (fabric().now() >= deadline.at) return Outcome::timed_out;
    fabric().sleep(kLook);
  }
  return Outcome::done;
}

std::uint64_t SimTeam::epoch() const { return world_.deaths_; }

Outcome SimTeam::evict(Rank rank, Deadline /*deadline*/) {
  world_.kill(rank);
  fabric().mark_lost(rank);
  return Outcome::done;
}

}  // namespace farside::sim
