#include "sim/world.h"

#include <utility>

#include "farside/base/error.h"

namespace farside::sim {

namespace {

using team::Rank;
constexpr Duration kSetUp = std::chrono::seconds(30);
constexpr Duration kLook = std::chrono::microseconds(50);
}  // namespace

World::World(std::uint64_t seed, Rank processes, const Network& network)
    : network_(network), scheduler_(seed), wires_(scheduler_, network_) {
  if (network_.prioritizes) scheduler_.choose_by_priorities();
  wires_.on_kill([this](ProcessId process) {
    for (Rank rank = 0; rank < size(); ++rank) {
      if (fabric(rank).process() == process) kill(rank);
    }
  });
  for (Rank rank = 0; rank < processes; ++rank) lives_.push_back(make_life(rank, next_process_++, 1, processes));
  for (const Life& life : lives_) {
    for (Rank peer = 0; peer < processes; ++peer) life.fabric->connect(peer, fabric(peer).address());
  }
}

World::Life World::make_life(Rank rank, ProcessId process, std::uint16_t incarnation, Rank size) {
  auto fabric = std::make_unique<SimFabric>(wires_, process);
  auto team = std::make_unique<SimTeam>(*this, *fabric, rank, size, incarnation);
  return {std::move(fabric), std::move(team)};
}

World::World(std::uint64_t seed, Rank processes, const Machine& machine)
    : World(seed, processes,
            Network{.buffers_stores = false,
                    .interleaves_accesses = false,
                    .slow_process = {},
                    .clocks_drift = false,
                    .misses_plain_writes = false,
                    .freed_reads_blank = false}) {
  wires_.run_on(machine, processes);
}

void World::read_file(Rank reader, std::uint64_t offset, std::uint64_t bytes) {
  const Scheduler::Ticket ticket = scheduler_.ticket();
  wires_.timing()->read_file(reader, offset, bytes, [this, ticket] { scheduler_.go_on(ticket); });
  scheduler_.sleep_until_gone_on();
}

void World::kill(Rank rank) {
  if (!alive(rank)) return;
  scheduler_.kill(fabric(rank).process());
  ++deaths_;
  for (Rank other = 0; other < size(); ++other) {
    if (other != rank) tell_loss(other, rank);
  }
}

void World::declare_dead(Rank rank, Rank to) {
  declared_dead_.insert(fabric(rank).process());
  fabric(to).mark_lost(rank);
}

void World::evict(Rank by, Rank rank) {
  if (network_.revoking_kills) return kill(rank);
  if (network_.announces_evictions && evicted(by)) return;
  if (!alive(rank) || !evicted_.insert(fabric(rank).process()).second || !network_.announces_evictions) return;
  ++deaths_;
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank) continue;
    if (other != by) tell_eviction(other, rank);
    tell_cut_off(rank, other);
  }
}

// A rank that is stopped learns it later.
void World::tell_cut_off(Rank rank, Rank from) {
  const ProcessId process = fabric(rank).process();
  scheduler_.after(
      scheduler_.up_to(network_.detection),
      [this, rank, from, process, other = fabric(from).process()] {
        if (fabric(rank).process() == process && fabric(rank).life_of(from) == other) fabric(rank).mark_lost(from);
      },
      [this, process] { return !scheduler_.paused(process); });
}

void World::tell_eviction(Rank to, Rank rank) {
  scheduler_.after(scheduler_.up_to(network_.detection), [this, to, rank, process = fabric(rank).process()] {
    if (fabric(to).life_of(rank) != process) return;
    wires_.take_access(process, fabric(to).process());
    fabric(to).mark_lost(rank);
  });
}

void World::restart(Rank rank) {
  const auto incarnation = static_cast<std::uint16_t>(team(rank).incarnation() + 1);
  past_.push_back(std::exchange(lives_[rank], make_life(rank, next_process_++, incarnation, size())));
  for (Rank peer = 0; peer < size(); ++peer) {
    fabric(rank).connect(peer, fabric(peer).address());
    if (!alive(peer)) tell_loss(rank, peer);
  }
}

// Tells the process that is `to` by then, if `rank` still means the process that died.
void World::tell_loss(Rank to, Rank rank) {
  scheduler_.after(scheduler_.up_to(network_.detection), [this, to, rank, process = fabric(rank).process()] {
    if (fabric(to).life_of(rank) == process) fabric(to).mark_lost(rank);
  });
}

// Known sooner or later than the loss, but never before it.
void World::tell_return(Rank rank, const std::string& name) {
  for (Rank other = 0; other < size(); ++other) {
    if (other == rank) continue;
    const Duration most = scheduler_.one_in(2) ? network_.latency : network_.detection;
    scheduler_.after(scheduler_.up_to(most), [this, other, rank, name, process = fabric(rank).process()] {
      if (fabric(rank).process() != process || !alive(other)) return;
      if (fabric(other).life_of(rank) != process) {
        fabric(other).mark_lost(rank);
        fabric(other).connect(rank, fabric(rank).address());
        if (!alive(rank)) tell_loss(other, rank);
      }
      team(other).take_back(rank, name, meetings_["allocate " + name].at(rank));
    });
  }
}

void World::pause(Rank rank, Duration duration) {
  SimFabric& paused = fabric(rank);  // of this life, which the world keeps
  scheduler_.pause(paused.process());
  if (network_.clocks_stop && scheduler_.one_in(2)) paused.suspend();
  scheduler_.after(duration, [this, &paused] { resume(paused); });
}

void World::resume(SimFabric& paused) {
  paused.wake_up();
  scheduler_.resume(paused.process());
}

void World::heal() {
  wires_.heal();
  network_.lands_late = false;
  network_.answers_late = false;
  network_.stalls_before_posting = false;
  network_.revokes_slowly = false;
  network_.breaks_links = false;
  for (const Life& life : lives_) resume(*life.fabric);
}

std::unique_ptr<team::SymmetricRegion> SimTeam::allocate(const std::string& name, std::uint64_t bytes) {
  auto local = fabric().create_region(name, bytes);
  auto& handles = world_.meetings_["allocate " + name];
  handles[rank_] = local->handle();
  if (incarnation_ > 1) world_.tell_return(rank_, name);
  const Deadline deadline = fabric().in(kSetUp);
  while (handles.size() < size_) {
    if (fabric().now() >= deadline.at) {
      throw Error({"allocate", name, "not all ranks have come", "call it on all ranks in the same order"});
    }
    fabric().sleep(kLook);
  }
  std::vector<std::unique_ptr<RemoteRegion>> remotes;
  for (Rank rank = 0; rank < size_; ++rank) remotes.push_back(fabric().attach(rank, handles.at(rank)));
  const auto pieces = std::make_shared<team::Pieces>(std::move(remotes));
  regions_[name] = pieces;
  return std::make_unique<team::SymmetricRegion>(std::move(local), pieces);
}

void SimTeam::take_back(Rank rank, const std::string& name, const std::string& handle) {
  if (const auto pieces = regions_[name].lock()) pieces->replace(rank, fabric_.attach(rank, handle));
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

// One that was declared dead is told nothing any more.
bool SimTeam::has_died(Rank rank) {
  if (world_.declared_dead_.contains(fabric_.process())) return false;
  return fabric_.lost(rank) && !fabric_.is_broken(rank) && world_.is_decided_dead(fabric_.life_of(rank));
}

bool SimTeam::is_out(Rank rank) {
  return has_died(rank) || (!world_.network_.announces_evictions && evicted_.contains(fabric_.life_of(rank)));
}

Outcome SimTeam::evict(Rank rank, Deadline deadline) {
  evicted_.insert(fabric_.life_of(rank));
  world_.evict(rank_, rank);
  if (!world_.network_.revoking_kills) fabric_.mark_lost(rank);  // before its access is gone, as in a team of processes
  return fabric().revoke(rank, deadline);
}

}  // namespace farside::sim
